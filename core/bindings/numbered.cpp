#include "bindings/numbered.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <new>
#include <thread>

#include "bindings/reader.h"

namespace openbnns {

using namespace nb::literals;

namespace {

constexpr uint64_t kOneGeneration = uint64_t{1} << Numbered::Place::kUserBits, kUsers = kOneGeneration - 1;
constexpr uint32_t kChunk = 1 << 10, kChunks = 1 << 10, kNone = UINT32_MAX;

std::atomic<Numbered::Place*> chunks[kChunks];
std::atomic<uint32_t> places{0};
uint32_t first_free = kNone;

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

constexpr size_t kMostWords = 32;

int run(uint64_t call, const OpenBNNSWord* words, size_t count) {
  const Numbered::Use use(call);
  return use ? use->run_raw(words, count) : kDeclined;
}

constexpr OpenBNNSRawCalls kRawCalls = {OPENBNNS_RAW_VERSION, run};

}  // namespace

Numbered::Place* Numbered::find(uint64_t number) {
  const uint64_t index = number & kIndices;
  return index < places.load(std::memory_order_acquire) ? &place_at(index) : nullptr;
}

uint64_t Numbered::number() {
  if (number_) return number_;
  const uint32_t index = take_place();
  if (index == kNone) return 0;
  place_ = &place_at(index);
  place_->object = this;
  const uint64_t generation = place_->state.load(std::memory_order_acquire) >> Place::kUserBits;
  return number_ = generation << kIndexBits | index;
}

void Numbered::end() {
  if (!number_) return;
  place_->state.fetch_add(kOneGeneration);
  for (int turn = 0; place_->state.load() & kUsers; turn++) {
    if (turn < 100)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  place_->object = nullptr;
  place_->next_free = first_free;
  first_free = number_ & kIndices;
  number_ = 0;
}

int Variants::run_raw(const OpenBNNSWord* words, size_t count) {
  OpenBNNSWord others[kMostWords];
  if (count > kMostWords || count <= places_.back()) return kDeclined;
  for (const auto& [values, number] : choices_) {
    size_t next = 0;
    while (next < places_.size() && words[places_[next]].number == static_cast<uint64_t>(values[next])) next++;
    if (next < places_.size()) continue;
    size_t kept = 0;
    next = 0;
    for (size_t i = 0; i < count; i++) {
      if (next < places_.size() && i == places_[next])
        next++;
      else
        others[kept++] = words[i];
    }
    return run(number, others, kept);
  }
  return kDeclined;
}

int Selected::run_raw(const OpenBNNSWord* words, size_t count) {
  if (count != count_) return kDeclined;
  for (size_t place : absent_)
    if (words[place].pointer) return kDeclined;
  const bool cached = words[cache_.word].pointer;
  uint64_t bytes = words[cache_.size_word].number;
  if (cache_.size_is_pointed_to) {  // one without the other asks for something else
    const void* size = words[cache_.size_word].pointer;
    if (cached != (size != nullptr)) return kDeclined;
    if (size) std::memcpy(&bytes, size, sizeof bytes);
  }
  if (cached && bytes / cache_.bytes_per_sample < words[0].number) return kDeclined;
  const Choice& choice = cached ? with_ : without_;
  OpenBNNSWord others[kMostWords];
  if (choice.picks.size() > kMostWords) return kDeclined;
  for (size_t i = 0; i < choice.picks.size(); i++) {
    const auto& [place, offset] = choice.picks[i];
    others[i] = words[place];
    if (offset && others[i].pointer) others[i].pointer = static_cast<const char*>(others[i].pointer) + offset;
  }
  return run(choice.number, others, choice.picks.size());
}

void bind_raw_calls(nb::module_& m) {
  m.attr("raw_calls") = nb::capsule(&kRawCalls, OPENBNNS_RAW_CALLS);
  nb::class_<Numbered>(m, "Numbered").def("number", &Numbered::number).def("end", &Numbered::end);
  nb::class_<Variants, Numbered>(m, "Variants")
      .def(nb::init<std::vector<size_t>, Variants::Choices>(), "places"_a, "choices"_a);
  using Picks = std::vector<Selected::Pick>;
  nb::class_<Selected, Numbered>(m, "Selected")
      .def(
          "__init__",
          [](Selected* self, size_t count, std::vector<size_t> absent, size_t cache, size_t size, bool pointed,
             uint64_t bytes, std::pair<Picks, uint64_t> without, std::pair<Picks, uint64_t> with) {
            for (const Picks& picks : {without.first, with.first})
              for (const auto& pick : picks)
                if (pick.first >= count) throw nb::index_error("Selected: there is no such word");
            new (self) Selected(count, std::move(absent), {cache, size, pointed, bytes},
                                {std::move(without.first), without.second}, {std::move(with.first), with.second});
          },
          "count"_a, "absent"_a, "cache"_a, "size"_a, "size_is_pointed_to"_a, "bytes_per_sample"_a, "without"_a,
          "with_"_a);
}

}  // namespace openbnns
