// Native calls by number, for those who hold no reference to them and no lock: C programs (raw.h), on any thread.
//
// A number names a place in a table that is never freed, and the generation of what stands there. So a number of
// something that has ended is recognized without touching memory that may be gone.
#pragma once
#include <nanobind/nanobind.h>

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

  // Its number, the same until end(); needs the interpreter's lock, as does end().
  uint64_t number();

  // Waits for the calls that use it, and lets no others begin.
  void end();

  struct Place;

  // While it lives and holds, its object does not end.
  class Use {
   public:
    explicit Use(uint64_t number);
    ~Use();
    Use(const Use&) = delete;
    explicit operator bool() const { return place_ != nullptr; }
    Numbered* operator->() const;

   private:
    Place* place_ = nullptr;
  };

 private:
  uint64_t number_ = 0;
  bool ended_ = false;
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

void bind_raw_calls(nanobind::module_& m);

}  // namespace openbnns
