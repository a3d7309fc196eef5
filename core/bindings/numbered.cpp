#include "bindings/numbered.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <new>
#include <thread>
#include <utility>

#include "bindings/reader.h"

namespace openbnns {

namespace {

constexpr uint64_t kOneGeneration = uint64_t{1} << Numbered::Place::kUserBits, kUsers = kOneGeneration - 1;
constexpr uint32_t kChunk = 1 << 10, kChunks = 1 << 10, kNone = UINT32_MAX;

std::atomic<Numbered::Place*> chunks[kChunks];
std::atomic<uint32_t> places{0};
uint32_t first_free = kNone;
nb::ft_mutex giving_numbers;  // where Python has no lock

Numbered::Place& place_at(uint64_t index) {
  return chunks[index / kChunk].load(std::memory_order_acquire)[index % kChunk];
}

// A place without an object, or kNone.
uint32_t take_place() {
  if (first_free != kNone) {
    const uint32_t index = first_free;
    first_free = place_at(index).next_free;
    return index;
  }
  const uint32_t index = places.load(std::memory_order_relaxed);
  if (index == kChunk * kChunks) return kNone;
  if (index % kChunk == 0) {
    auto* chunk = new (std::nothrow) Numbered::Place[kChunk]();
    if (!chunk) return kNone;
    for (uint32_t i = 0; i < kChunk; i++) chunk[i].state = kOneGeneration;  // so that no number is 0
    chunks[index / kChunk].store(chunk, std::memory_order_release);
  }
  places.store(index + 1, std::memory_order_release);
  return index;
}

// Calls of threads that a forked child does not have never end there.
void forget_users() {
  for (uint32_t i = 0; i < places.load(); i++) place_at(i).state.fetch_and(~kUsers);
}
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, forget_users);

}  // namespace

Numbered::Place* Numbered::find(uint64_t number) {
  const uint64_t index = number & kIndices;
  return index < places.load(std::memory_order_acquire) ? &place_at(index) : nullptr;
}

uint64_t Numbered::number() {
  const nb::ft_lock_guard locked(giving_numbers);
  if (number_) return number_;
  const uint32_t index = take_place();
  if (index == kNone) return 0;
  place_ = &place_at(index);
  place_->object = this;
  const uint64_t generation = place_->state.load(std::memory_order_acquire) >> Place::kUserBits;
  return number_ = generation << kIndexBits | index;
}

void Numbered::end() {
  uint64_t ended;
  Place* place;
  {
    const nb::ft_lock_guard locked(giving_numbers);
    ended = std::exchange(number_, 0);
    place = place_;
  }
  if (!ended) return;
  place->state.fetch_add(kOneGeneration);
  for (int turn = 0; place->state.load() & kUsers; turn++) {
    if (turn < 100)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  const nb::ft_lock_guard locked(giving_numbers);
  place->object = nullptr;
  place->next_free = first_free;
  first_free = ended & kIndices;
}

int run_numbered(uint64_t number, const OpenBNNSWord* words, size_t count) {
  const Numbered::Use use(number);
  return use ? use->run_raw(words, count) : kDeclined;
}

namespace {

constexpr OpenBNNSRawCalls kRawCalls = {OPENBNNS_RAW_VERSION, run_numbered};

int run_native(NativeCall& call, nb::args arguments) {
  PyObject* given[kMostArguments];
  const size_t count = arguments.size();
  if (count > kMostArguments) return kDeclined;
  for (size_t i = 0; i < count; i++) given[i] = PyTuple_GetItem(arguments.ptr(), static_cast<Py_ssize_t>(i));
  return call.run(given, count);
}

}  // namespace

void bind_raw_calls(nb::module_& m) {
  m.attr("raw_calls") = nb::capsule(&kRawCalls, OPENBNNS_RAW_CALLS);
  nb::class_<Numbered>(m, "Numbered").def("number", &Numbered::number).def("end", &Numbered::end);
  nb::class_<NativeCall, Numbered>(m, "NativeCall")
      .def("run", &run_native, nb::sig("def run(self, *arguments: object) -> int"));
}

}  // namespace openbnns
