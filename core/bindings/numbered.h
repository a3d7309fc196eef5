// Native calls by number, for those who hold no reference to them and no lock: C programs (raw.h), on any thread.
//
// A number names a place in a table that is never freed, and the generation of what stands there. So a number of
// something that has ended is recognized without touching memory that may be gone.
#pragma once
#include <nanobind/nanobind.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "bindings/raw.h"

namespace openbnns {

class Numbered {
 public:
  Numbered() = default;
  Numbered(const Numbered&) = delete;
  virtual ~Numbered() { end(); }  // derived classes whose members calls use end() first

  // kDone or kDeclined; see raw.h.
  virtual int run_raw(const OpenBNNSWord* words, size_t count) = 0;

  // Its number, a new one after each end(). Both need the interpreter's lock.
  uint64_t number();

  // Waits for the calls that use the number, and lets no others begin.
  void end();

  // A place in the table; state: the generation of its object, and in the last kUserBits the number of calls that use
  // it.
  struct alignas(64) Place {  // one per cache line: threads with filters of their own do not slow each other down
    static constexpr int kUserBits = 24;
    std::atomic<uint64_t> state;
    Numbered* object;  // null if there is none
    uint32_t next_free;
  };

  // While it lives and holds, its object does not end.
  class Use {
   public:
    explicit Use(uint64_t number) : Use(find(number), number) {}
    ~Use() {
      if (place_) place_->state.fetch_sub(1, std::memory_order_release);
    }
    Use(const Use&) = delete;
    explicit operator bool() const { return place_ != nullptr; }
    Numbered* operator->() const { return place_->object; }
    Numbered& operator*() const { return *place_->object; }

   private:
    friend class Numbered;
    Use(Place* place, uint64_t number) {
      if (!place) return;
      // Who ends the object first makes a new generation, then looks for users: one of the two sees the other.
      const uint64_t state = place->state.fetch_add(1);
      if (state >> Place::kUserBits == number >> kIndexBits && place->object)
        place_ = place;
      else
        place->state.fetch_sub(1);
    }
    Place* place_ = nullptr;
  };

 private:
  static constexpr int kIndexBits = 24;
  static constexpr uint64_t kIndices = (uint64_t{1} << kIndexBits) - 1;
  static Place* find(uint64_t number);

  uint64_t number_ = 0;  // generation and index
  Place* place_ = nullptr;
};

// A function whose arguments choose among native calls (training or not, the type of indices): runs the chosen one with
// the others.
class Variants final : public Numbered {
 public:
  using Choices = std::vector<std::pair<std::vector<int64_t>, uint64_t>>;

  // places: where the choosing words stand, in ascending order; choices: their values, and the number of the call.
  Variants(std::vector<size_t> places, Choices choices) : places_(std::move(places)), choices_(std::move(choices)) {}
  ~Variants() override { end(); }
  int run_raw(const OpenBNNSWord* words, size_t count) override;

 private:
  const std::vector<size_t> places_;
  const Choices choices_;
};

// A function that takes more than its native call: some arguments must be NULL, members of structs are passed one by
// one, and a cache must be as large as it is said to be.
class Selected final : public Numbered {
 public:
  using Pick = std::pair<size_t, size_t>;  // a word, and the offset of a member in what it points to

  // With a cache and without one: what is passed on, and to which call.
  struct Choice {
    std::vector<Pick> picks;
    uint64_t number;
  };

  // The cache and its size are words; the size is pointed to, or passed itself. The first word is the batch.
  struct Cache {
    size_t word, size_word;
    bool size_is_pointed_to;
    uint64_t bytes_per_sample;
  };

  Selected(size_t count, std::vector<size_t> absent, Cache cache, Choice without, Choice with)
      : count_(count),
        absent_(std::move(absent)),
        cache_(cache),
        without_(std::move(without)),
        with_(std::move(with)) {}
  ~Selected() override { end(); }
  int run_raw(const OpenBNNSWord* words, size_t count) override;

 private:
  const size_t count_;
  const std::vector<size_t> absent_;
  const Cache cache_;
  const Choice without_, with_;
};

void bind_raw_calls(nanobind::module_& m);

}  // namespace openbnns
