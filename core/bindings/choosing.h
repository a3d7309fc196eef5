// Native calls that choose among others and pass their arguments on: Python objects, or the words of a C call.
#pragma once
#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "bindings/numbered.h"
#include "bindings/reader.h"

namespace openbnns {

// A call that arguments are passed on to: the object itself while the interpreter's lock is held, its number otherwise.
class Chosen {
 public:
  // None stands for a call that declines everything.
  explicit Chosen(nb::object call);

  int run(PyObject* const* arguments, size_t count) const;
  int run(const OpenBNNSWord* words, size_t count) const;

 private:
  nb::object owner_;
  NativeCall* call_ = nullptr;
  uint64_t number_ = 0;
};

// A function some of whose arguments choose among native calls (training or not, the type of indices): runs the chosen
// call with the other arguments.
class Variants final : public NativeCall {
 public:
  using Choices = std::vector<std::pair<std::vector<int64_t>, nb::object>>;

  // places: positions of the choosing arguments, in ascending order; choices: their values, and the call.
  Variants(std::vector<size_t> places, const Choices& choices);
  ~Variants() override { end(); }
  int run(PyObject* const* arguments, size_t count) override { return choose<PythonReader>(arguments, count); }
  int run_raw(const OpenBNNSWord* words, size_t count) override { return choose<RawReader>(words, count); }

 private:
  template <class Reader>
  int choose(const typename Reader::Source* arguments, size_t count) const;

  const std::vector<size_t> places_;
  std::vector<std::pair<std::vector<int64_t>, Chosen>> choices_;
};

// A function that takes more than its native call: some arguments must be NULL, members of structs are passed one by
// one, and a cache must be as large as its stated size.
class Selected final : public NativeCall {
 public:
  // The place of an argument, and the number of a descriptor in the BNNSMHAProjectionParameters that stand there, or -1
  // for the argument itself.
  using Pick = std::pair<size_t, int>;

  // With a cache and without one: what is passed on, and to which call.
  struct Choice {
    std::vector<Pick> picks;
    Chosen call;
  };

  // Places of the cache and of its size. The first argument is the batch. The size is pointed to, from Python by an
  // object of type `pointer`; where that is None, it is passed itself.
  struct Cache {
    size_t place, size_place;
    nb::object pointer;
    int64_t bytes_per_sample;
  };

  Selected(size_t count, std::vector<size_t> absent, Cache cache, Choice without, Choice with)
      : count_(count),
        absent_(std::move(absent)),
        cache_(std::move(cache)),
        without_(std::move(without)),
        with_(std::move(with)) {}
  ~Selected() override { end(); }
  int run(PyObject* const* arguments, size_t count) override;
  int run_raw(const OpenBNNSWord* words, size_t count) override;

 private:
  template <class Reader>
  const Choice* choose(const typename Reader::Source* arguments) const;
  bool pointed_to(PyObject* pointer, int64_t& size) const;
  static bool pointed_to(OpenBNNSWord pointer, int64_t& size);

  const size_t count_;
  const std::vector<size_t> absent_;
  const Cache cache_;
  const Choice without_, with_;
};

void bind_choosing(nb::module_& m);

}  // namespace openbnns
