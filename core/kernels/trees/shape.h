#pragma once
#include <cstdint>

#include "common/fields.h"

namespace openbnns {

// Decision trees, which all see the same features, and what their leaves say in total. Packed tensors in C order.
enum TreesSlot {
  kTreesX,  // [N][features]
  kTreesW,  // [entries]: what leaves say
  kTreesY,  // [N][columns]
};

// Where a sample goes from a node with two others behind it: the second one if this holds.
enum class Decision {
  UpTo,            // x <= threshold; NaN goes to the first one
  Above,           // x > threshold; NaN goes to the first one
  Equal,           // x == threshold
  EqualOrMissing,  // that, or x is NaN
  Member,          // x is one of the members of the node
  MemberOrMissing,
};

enum class TreesTotal { Sum, Mean, Minimum, Maximum };

// Nodes of all trees, parents in front of their children. A leaf is UpTo NaN, so that it leads to itself.
struct TreesShape {
  int64_t features = 0, columns = 0;
  TreesTotal total = TreesTotal::Sum;
  Table<int32_t> roots;                  // by tree
  Table<int32_t> feature, kind, behind;  // by node: what is asked, the Decision, the first of the two nodes behind it
  Table<float> threshold;                // by node
  Table<int32_t> first_entry;            // of the entries of a node, by node, and behind the last one
  Table<int32_t> column;                 // by entry: what it is about
  Table<int32_t> first_member;           // of the members of a node, by node, and behind the last one
  Table<float> member;                   // ascending within a node
  OPENBNNS_FIELDS(features, columns, total, roots, feature, kind, behind, threshold, first_entry, column, first_member,
                  member)
};

}  // namespace openbnns
