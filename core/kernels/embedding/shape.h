#pragma once
#include <cstdint>

#include "common/fields.h"

namespace openbnns {

// Slots of one-input filters; x holds indices instead of floats: [positions], unsigned, all below `entries`.
// w and dw: [entries][item], y and dy: [positions][item]; with item_major [item][entries] and [item][positions].
struct EmbeddingShape {
  int64_t positions, entries, item;
  int index_bytes;  // 4 or 8
  bool item_major = false;
  int64_t padding = -1;                // entry that reads as zeros and has no gradient; -1: none
  float max_norm = 0;                  // entries with a larger p-norm are scaled down to it; 0: none are
  float norm_type = 2;                 // p, infinity included
  bool by_frequency = false;           // the gradient of an entry is divided by the number of its lookups
  bool renormalizes_in_place = false;  // max_norm scales the entries of w that are looked up, not what is read
  OPENBNNS_FIELDS(positions, entries, item, index_bytes, item_major, padding, max_norm, norm_type, by_frequency,
                  renormalizes_in_place)
};

}  // namespace openbnns
