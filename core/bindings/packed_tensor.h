// Descriptors of packed Float32 tensors, for functions that take lists of tensors.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "bindings/reader.h"

namespace openbnns {

// The form of a tensor: an array's shape, or a descriptor's layout and size.
struct Form {
  int64_t layout = 0;  // 0 for an array
  int rank = 0;
  int64_t size[kMaxRank];

  bool operator==(const Form& other) const {
    return layout == other.layout && rank == other.rank && std::equal(size, size + rank, other.size);
  }
};

// Reads a descriptor with data, of one of these layouts (sorted; layouts that are neither reversed nor blocked).
template <class Reader>
bool read_packed(const typename Reader::Descriptor& d, const std::vector<int64_t>& layouts, bool written,
                 Reader& reader, Form& form, Memory& memory, int64_t& count) {
  int64_t type, stride[kMaxRank];
  if (!d.layout(form.layout) || !d.data_type(type) || type != kFloat32) return false;
  if (!std::binary_search(layouts.begin(), layouts.end(), form.layout)) return false;
  form.rank = static_cast<int>(form.layout >> 16);
  if (!d.size(form.rank, form.size) || !d.stride(form.rank, stride)) return false;
  if (!std::all_of(stride, stride + form.rank, [](int64_t s) { return s == 0; })) return false;
  if (reader.data(d, kFloats, written, memory) != Data::kSimple) return false;
  const int64_t room = std::min(memory.bytes / 4, kMaxElements);
  count = 1;
  for (int a = 0; a < form.rank; a++) {
    if (form.size[a] < 1 || form.size[a] > room / count) return false;
    count *= form.size[a];
  }
  return is_aligned(memory.begin, 4);
}

}  // namespace openbnns
