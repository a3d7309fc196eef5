// Native calls by number, for callers that hold neither a reference to them nor a lock: C programs (raw.h), on any
// thread.
//
// A number names a place in a table that is never freed, and the generation of what is there. So the number of an
// object that has ended is recognized without touching memory that may be gone.
#pragma once
#include <nanobind/nanobind.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

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
  struct alignas(64) Place {  // one per cache line: threads with separate filters do not slow each other down
    static constexpr int kUserBits = 24;
    std::atomic<uint64_t> state;
    Numbered* object;  // null if there is none
    uint32_t next_free;
  };

  // As long as it exists and has an object, that object does not end.
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
      // A thread that ends the object first makes a new generation, then looks for users: one of the two sees the
      // other.
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

// The call of this number on words, kDeclined if there is none.
int run_numbered(uint64_t number, const OpenBNNSWord* words, size_t count);

constexpr size_t kMostArguments = 32;

// A call that Python runs, too, and to which other calls pass arguments on (choosing.h).
class NativeCall : public Numbered {
 public:
  // kDone, or kDeclined: nothing has been written then. The arguments are those of the C function after its filter.
  virtual int run(PyObject* const* arguments, size_t count) = 0;
};

void bind_raw_calls(nanobind::module_& m);

}  // namespace openbnns
