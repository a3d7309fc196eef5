// Multihead attention, forward and backward, with every gradient compared with finite differences.
//
//     c++ -std=c++17 -O2 attention.cpp -o attention $(openbnns c-flags) && ./attention
//
// T queries of width D attend to S keys, with H heads of width K. A direction U in the space of one tensor, and weights
// V for the outputs, turn its gradient into one number that can be measured: sum V y changes by <gradient, U> per step.

#include <openbnns/bnns.h>

#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr size_t kBatch = 2, T = 3, S = 5, D = 4, K = 2, H = 3;

using Tensor = std::vector<float>;

// Owns a filter.
struct Destroy {
  void operator()(void* filter) const { BNNSFilterDestroy(filter); }
};
using Filter = std::unique_ptr<void, Destroy>;

void check(bool good, const char* what) {
  if (good) return;
  const char* reason = openbnns_last_error();
  throw std::runtime_error(std::string(what) + ": " + (reason ? reason : "no reason is known"));
}

// A packed array in C order: size[] lists the slowest axis first.
BNNSNDArrayDescriptor describe(BNNSDataLayout layout, std::initializer_list<size_t> sizes, Tensor* tensor = nullptr) {
  BNNSNDArrayDescriptor d{};
  d.layout = layout;
  d.data_type = BNNSDataTypeFloat32;
  size_t axis = 0;
  for (size_t size : sizes) d.size[axis++] = size;
  if (tensor) d.data = tensor->data();
  return d;
}

// All tensors of the layer by name; their gradients are kept in another of these.
using Tensors = std::map<std::string, Tensor>;

Tensors make_tensors() {
  Tensors t;
  t["query"].resize(kBatch * T * D);
  t["key"].resize(kBatch * S * D);
  t["value"].resize(kBatch * S * D);
  for (const char* name : {"query weights", "key weights", "value weights"}) t[name].resize(D * K * H);
  for (const char* name : {"query bias", "key bias", "value bias"}) t[name].resize(K * H);
  t["output weights"].resize(H * K * D);
  t["output bias"].resize(D);
  return t;
}

// Descriptors of one of the four projections. `rows` is T or S; the target is one sample of a batch.
BNNSMHAProjectionParameters projection(Tensors& tensors, const std::string& name, size_t rows, Tensor* target) {
  BNNSMHAProjectionParameters p{};
  p.target_desc = describe(BNNSDataLayout2DFirstMajor, {rows, D}, target);
  if (name == "output") {
    p.weights = describe(BNNSDataLayout2DFirstMajor, {H * K, D}, &tensors["output weights"]);
    p.bias = describe(BNNSDataLayoutVector, {D}, &tensors["output bias"]);
  } else {
    p.weights = describe(BNNSDataLayout3DFirstMajor, {D, K, H}, &tensors[name + " weights"]);
    p.bias = describe(BNNSDataLayout2DFirstMajor, {K, H}, &tensors[name + " bias"]);
  }
  return p;
}

// The filter reads its parameters from `tensors` at every call, so that changing a number there is enough.
Filter create(Tensors& tensors) {
  BNNSLayerParametersMultiheadAttention layer{};
  layer.query = projection(tensors, "query", T, nullptr);
  layer.key = projection(tensors, "key", S, nullptr);
  layer.value = projection(tensors, "value", S, nullptr);
  layer.output = projection(tensors, "output", T, nullptr);
  BNNSFilterParameters options{};
  options.flags = BNNSFlagsUseClientPtr;
  Filter filter(BNNSFilterCreateLayerMultiheadAttention(&layer, &options));
  check(filter != nullptr, "creation");
  return filter;
}

// The cache, if given, receives what the backward call needs.
Tensor forward(const Filter& filter, const Tensors& t, std::vector<char>* cache = nullptr) {
  const float *query = t.at("query").data(), *key = t.at("key").data(), *value = t.at("value").data();
  Tensor output(kBatch * T * D);
  size_t bytes = 0;
  if (cache) {  // a size pointer without its buffer asks for the size
    check(BNNSApplyMultiheadAttention(filter.get(), kBatch, query, T * D, key, S * D, nullptr, 0, value, S * D,
                                      output.data(), T * D, nullptr, &bytes, nullptr, nullptr, nullptr) == 0,
          "size of the cache");
    cache->resize(bytes);
  }
  check(BNNSApplyMultiheadAttention(filter.get(), kBatch, query, T * D, key, S * D, nullptr, 0, value, S * D,
                                    output.data(), T * D, nullptr, cache ? &bytes : nullptr,
                                    cache ? cache->data() : nullptr, nullptr, nullptr) == 0,
        "forward");
  return output;
}

// Gradients of all tensors, for the gradient of the output.
Tensors backward(const Filter& filter, const Tensors& t, const Tensor& output, Tensor& output_gradient,
                 std::vector<char>& cache) {
  Tensors gradients = make_tensors();
  auto query = projection(gradients, "query", T, &gradients["query"]);
  auto key = projection(gradients, "key", S, &gradients["key"]);
  auto value = projection(gradients, "value", S, &gradients["value"]);
  auto result = projection(gradients, "output", T, &output_gradient);  // its target is what arrives
  // The free third stride of a target is its distance from sample to sample.
  query.target_desc.stride[2] = result.target_desc.stride[2] = T * D;
  key.target_desc.stride[2] = value.target_desc.stride[2] = S * D;
  check(BNNSApplyMultiheadAttentionBackward(filter.get(), kBatch, t.at("query").data(), T * D, &query,
                                            t.at("key").data(), S * D, nullptr, 0, &key, t.at("value").data(), S * D,
                                            &value, nullptr, nullptr, nullptr, output.data(), T * D, &result,
                                            cache.size(), cache.data(), nullptr, nullptr) == 0,
        "backward");
  return gradients;
}

double dot(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); i++) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

void run() {
  std::mt19937 random(7);
  auto normal = [&](Tensor& tensor, float scale) {
    std::normal_distribution<float> numbers(0, scale);
    for (float& x : tensor) x = numbers(random);
  };
  Tensors tensors = make_tensors();
  for (auto& [name, tensor] : tensors) normal(tensor, 0.7f);
  Filter filter = create(tensors);

  std::vector<char> cache;
  const Tensor output = forward(filter, tensors, &cache);
  Tensor output_gradient(output.size());
  normal(output_gradient, 1);
  const Tensor weights = output_gradient;  // a backward call may overwrite the gradient that arrives
  const Tensors gradients = backward(filter, tensors, output, output_gradient, cache);

  std::printf("%-16s %12s %12s\n", "tensor", "gradient", "measured");
  constexpr float kStep = 1e-2f;
  for (auto& [name, tensor] : tensors) {
    Tensor direction(tensor.size());
    normal(direction, 1);
    const Tensor before = tensor;
    double measured = 0;
    for (float sign : {1.0f, -1.0f}) {
      for (size_t i = 0; i < tensor.size(); i++) tensor[i] = before[i] + sign * kStep * direction[i];
      measured += sign * dot(weights, forward(filter, tensors)) / (2 * kStep);
    }
    tensor = before;
    const double computed = dot(gradients.at(name), direction);
    std::printf("%-16s %12.5f %12.5f\n", name.c_str(), computed, measured);
    // Steps of 0.01 in single precision: errors of the square of the step, and of rounding.
    check(std::abs(computed - measured) <= 5e-3 * (1 + std::abs(measured)), name.c_str());
  }
}

}  // namespace

int main() {
  try {
    run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "attention: %s\n", error.what());
    return 1;
  }
  return 0;
}
