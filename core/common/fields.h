// The fields of a shape by name, so that the bindings can take them as keywords.
#pragma once
#include <tuple>
#include <vector>

namespace openbnns {

// More numbers than a Python list should hold; they are passed as the bytes of an array.
template <class Number>
struct Table : std::vector<Number> {
  using std::vector<Number>::vector;
};

}  // namespace openbnns

// OPENBNNS_FIELDS(width, height) in a struct: fields() has references to these members, kFieldNames their names.
// A template, so that only sources that call it pay for the tuple: the bindings, not the kernels.
#define OPENBNNS_FIELDS(...)      \
  template <int = 0>              \
  auto fields() {                 \
    return std::tie(__VA_ARGS__); \
  }                               \
  static constexpr const char* kFieldNames[] = {OPENBNNS_SCAN(OPENBNNS_QUOTE(__VA_ARGS__))};

// OPENBNNS_QUOTE(width, height) is "width", "height". A macro does not expand inside itself, so each scan of the text
// gets one name further.
#define OPENBNNS_QUOTE(name, ...) #name __VA_OPT__(, OPENBNNS_QUOTE_MORE OPENBNNS_LATER(__VA_ARGS__))
#define OPENBNNS_QUOTE_MORE() OPENBNNS_QUOTE
#define OPENBNNS_LATER ()
#define OPENBNNS_SCAN(...) OPENBNNS_SCAN16(OPENBNNS_SCAN16(OPENBNNS_SCAN16(OPENBNNS_SCAN16(__VA_ARGS__))))
#define OPENBNNS_SCAN16(...) OPENBNNS_SCAN4(OPENBNNS_SCAN4(OPENBNNS_SCAN4(OPENBNNS_SCAN4(__VA_ARGS__))))
#define OPENBNNS_SCAN4(...) __VA_ARGS__
