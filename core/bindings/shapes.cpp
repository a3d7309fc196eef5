#include "bindings/shapes.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <stdexcept>
#include <type_traits>

#include "common/poolable.h"
#include "common/repeatable.h"
#include "kernels/kernels.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace openbnns {
namespace {

// What Python passes for a field of type T, and how it gets there: as it is, but for enums, arrays and tables.
template <class T>
struct Passed {
  using Type = std::conditional_t<std::is_enum_v<T>, int, T>;
  static void set(T& field, const Type& given) { field = static_cast<T>(given); }
};

// Of an array that has room for more, the first elements.
template <class T, size_t kRoom>
struct Passed<T[kRoom]> {
  using Type = std::vector<typename Passed<T>::Type>;
  static void set(T (&field)[kRoom], const Type& given) {
    if (given.size() > kRoom) throw std::out_of_range("more numbers than a shape has room for");
    for (size_t i = 0; i < given.size(); i++) Passed<T>::set(field[i], given[i]);
  }
};

template <class Number>
struct Passed<Table<Number>> {
  using Type = nb::bytes;
  static void set(Table<Number>& field, const Type& given) {
    field.resize(given.size() / sizeof(Number));
    for (size_t i = 0; i < field.size(); i++) {
      Number number;
      std::memcpy(&number, given.c_str() + i * sizeof(Number), sizeof(Number));
      field[i] = number;
    }
  }
};

template <class Number>
struct Passed<std::vector<Table<Number>>> {
  using Type = std::vector<nb::bytes>;
  static void set(std::vector<Table<Number>>& field, const Type& given) {
    field.resize(given.size());
    for (size_t i = 0; i < given.size(); i++) Passed<Table<Number>>::set(field[i], given[i]);
  }
};

template <class Shape, class... T>
Shape shape_of(const typename Passed<T>::Type&... given) {
  Shape shape{};
  std::apply([&](T&... field) { (Passed<T>::set(field, given), ...); }, shape.fields());
  return shape;
}

template <class Shape>
using Fields = decltype(std::declval<Shape>().fields());
template <class Shape>
using Numbers = std::make_index_sequence<std::tuple_size_v<Fields<Shape>>>;

template <class Shape, class... T, size_t... i>
void bind_maker(nb::module_& m, const char* name, std::unique_ptr<Plan> (*make)(const Shape&, const ActivationSpec&),
                std::tuple<T&...>*, std::index_sequence<i...>) {
  m.def(
      name,
      [make](const typename Passed<T>::Type&... given, const ActivationSpec& activation) {
        return std::shared_ptr<Plan>(make(shape_of<Shape, T...>(given...), activation));
      },
      nb::kw_only(), nb::arg(Shape::kFieldNames[i])..., "activation"_a);
}

template <class Made, class Shape, class... T, size_t... i>
void bind_maker(nb::module_& m, const char* name, std::unique_ptr<Made> (*make)(const Shape&), std::tuple<T&...>*,
                std::index_sequence<i...>) {
  m.def(
      name,
      [make](const typename Passed<T>::Type&... given) {
        return std::shared_ptr<Made>(make(shape_of<Shape, T...>(given...)));
      },
      nb::kw_only(), nb::arg(Shape::kFieldNames[i])...);
}

// make_<name>(shape, activation) as <name>(field=..., field=..., activation=...)
template <class Made, class Shape, class... Activation>
void bind_maker(nb::module_& m, const char* name, std::unique_ptr<Made> (*make)(const Shape&, Activation...)) {
  bind_maker(m, name, make, static_cast<Fields<Shape>*>(nullptr), Numbers<Shape>());
}

// A part of shapes as a class whose constructor takes the fields as keywords.
template <class Part, class... T, size_t... i>
void bind_part(nb::module_& m, const char* name, std::tuple<T&...>*, std::index_sequence<i...>) {
  nb::class_<Part>(m, name).def(
      "__init__",
      [](Part* part, const typename Passed<T>::Type&... given) { new (part) Part(shape_of<Part, T...>(given...)); },
      nb::kw_only(), nb::arg(Part::kFieldNames[i])...);
}

template <class Part>
void bind_part(nb::module_& m, const char* name) {
  bind_part<Part>(m, name, static_cast<Fields<Part>*>(nullptr), Numbers<Part>());
}

// A fused plan with a pooling behind it, or None.
std::shared_ptr<Plan> pooled(const std::shared_ptr<Plan>& plan) {
  const auto* fused = dynamic_cast<const PoolablePlan*>(plan.get());
  return fused ? fused->pooled() : nullptr;
}

// Results of a plan's latest training forward once more.
class Repeated final : public Plan {
 public:
  Repeated(std::shared_ptr<Plan> plan, Repeatable& repeatable) : plan_(std::move(plan)), repeatable_(repeatable) {}
  void forward(const Call& call) override { repeatable_.repeat(call); }
  void backward(const Call&) override { throw ForwardLost(); }  // is that of the plan itself

 private:
  const std::shared_ptr<Plan> plan_;
  Repeatable& repeatable_;
};

// A plan that gives once more what a fused plan or a normalization gave in training.
std::shared_ptr<Plan> repeated(std::shared_ptr<Plan> plan) {
  auto* repeatable = dynamic_cast<Repeatable*>(plan.get());
  return repeatable ? std::make_shared<Repeated>(std::move(plan), *repeatable) : nullptr;
}

}  // namespace

void bind_shapes(nb::module_& m) {
  nb::class_<Plan>(m, "Plan")
      .def("trained_batch", &Plan::trained_batch, nb::call_guard<nb::gil_scoped_release>())
      .def("forget", &Plan::forget, nb::call_guard<nb::gil_scoped_release>())
      .def("keep_weights", &Plan::keep_weights, "keep"_a)
      .def("workspace_bytes", &Plan::workspace_bytes, "backward"_a, "batch"_a, "cached"_a);
  nb::class_<LstmPlan>(m, "LstmPlan").def("cache_bytes", &LstmPlan::cache_bytes);

  bind_part<ActivationSpec>(m, "ActivationSpec");
  bind_part<ChainStep>(m, "ChainStep");
  bind_part<ContractionTensor>(m, "ContractionTensor");
  bind_part<Element>(m, "Element");
  bind_part<NormalizationShape>(m, "NormalizationShape");
  bind_part<YoloShape>(m, "YoloShape");

#define OPENBNNS_PLAN(Made, name, ...) bind_maker(m, #name, kernels().make_##name);
#define OPENBNNS_FUNCTION(Result, name, ...)
  OPENBNNS_FAMILIES(OPENBNNS_PLAN, OPENBNNS_FUNCTION)
  m.def("pooled", &pooled, "plan"_a, nb::sig("def pooled(plan: Plan) -> Plan | None"));
  m.def("repeated", &repeated, "plan"_a, nb::sig("def repeated(plan: Plan) -> Plan | None"));
}

}  // namespace openbnns
