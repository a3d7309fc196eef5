#include "bindings/tables.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <string>
#include <vector>

#include "tables/delimited.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace openbnns {
namespace {

// Contiguous memory of a Python object, held while this lives.
class Memory {
 public:
  Memory(nb::handle object, const char* format, bool writes) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_ND | PyBUF_FORMAT | (writes ? PyBUF_WRITABLE : 0)) != 0) {
      PyErr_Clear();
      throw nb::type_error("DelimitedReader.read: contiguous arrays are expected");
    }
    if (std::strcmp(view_.format, format) != 0) {
      PyBuffer_Release(&view_);
      throw nb::type_error("DelimitedReader.read: an array is of another type");
    }
  }
  Memory(const Memory&) = delete;
  ~Memory() { PyBuffer_Release(&view_); }

  template <class T>
  T* data() const {
    return static_cast<T*>(view_.buf);
  }
  int64_t rows() const { return view_.ndim < 1 ? 0 : view_.shape[0]; }
  int64_t columns() const { return view_.ndim < 2 ? 0 : view_.shape[1]; }
  int64_t bytes() const { return view_.len; }

 private:
  Py_buffer view_;
};

char single(const std::string& text) {
  if (text.size() > 1) throw nb::value_error("DelimitedReader: separator, quote and decimal sign have one byte");
  return text.empty() ? '\0' : text[0];
}

class Reader {
 public:
  Reader(const std::string& separator, const std::string& quote, const std::string& decimal,
         const std::vector<std::string>& missing, const std::vector<int>& columns, const std::vector<double>& centre,
         int64_t most_words)
      : reader_(format(separator, quote, decimal, missing), kinds(columns), centre, most_words) {
    if (static_cast<int64_t>(centre.size()) != count(Column::kNumber))
      throw nb::value_error("DelimitedReader: one centre for each column of numbers is expected");
  }

  int64_t read(nb::handle text, int64_t size, bool last, nb::handle numbers, nb::handle exact, nb::handle words) {
    const Memory from(text, "B", false), n(numbers, "f", true), e(exact, "d", true), w(words, "i", true);
    const int64_t both = count(Column::kBoth);
    if (size < 0 || size > from.bytes() || n.columns() != count(Column::kNumber) || e.columns() != both ||
        w.columns() != count(Column::kWord) + both || e.rows() != n.rows() || w.rows() != n.rows())
      throw nb::value_error("DelimitedReader.read: sizes do not fit");
    const DelimitedReader::Rows to{n.data<float>(), e.data<double>(), w.data<int32_t>(), n.rows()};
    nb::gil_scoped_release unlocked;
    return reader_.read(from.data<const char>(), size, last, to);
  }

  // What is wrong in the row at error_line, or an empty text.
  const char* error() const {
    constexpr const char* kNames[] = {"", "ragged", "quote", "zero", "encoding"};
    return kNames[static_cast<int>(reader_.error)];
  }

  // Of a column: how many cells are no numbers, the line of the first, and its text.
  nb::tuple odd(size_t column) const {
    const Odd& o = reader_.odd.at(column);
    return nb::make_tuple(o.count, o.line, nb::bytes(o.cell.data(), o.cell.size()));
  }

  nb::list words(size_t place) const {
    nb::list found;
    for (const std::string& word : reader_.words.at(place).all()) found.append(nb::bytes(word.data(), word.size()));
    return found;
  }

  bool overflowed(size_t place) const { return reader_.words.at(place).overflowed(); }
  int64_t missing(size_t column) const { return reader_.missing.at(column); }
  int64_t rows() const { return reader_.rows; }
  int64_t line() const { return reader_.line; }
  int64_t error_line() const { return reader_.error_line; }
  int64_t error_cells() const { return reader_.error_cells; }
  void set_line(int64_t line) { reader_.line = line; }

 private:
  static DelimitedFormat format(const std::string& separator, const std::string& quote, const std::string& decimal,
                                const std::vector<std::string>& missing) {
    return {single(separator), single(quote), single(decimal), missing};
  }

  std::vector<Column> kinds(const std::vector<int>& given) {
    for (int kind : given) {
      if (kind < 0 || kind > static_cast<int>(Column::kBoth))
        throw nb::value_error("DelimitedReader: there is no such kind of column");
      kinds_.push_back(static_cast<Column>(kind));
    }
    return kinds_;
  }

  int64_t count(Column kind) const {
    int64_t found = 0;
    for (Column k : kinds_) found += k == kind;
    return found;
  }

  std::vector<Column> kinds_;
  DelimitedReader reader_;
};

}  // namespace

void bind_tables(nb::module_& m) {
  nb::class_<Reader>(m, "DelimitedReader")
      .def(nb::init<const std::string&, const std::string&, const std::string&, const std::vector<std::string>&,
                    const std::vector<int>&, const std::vector<double>&, int64_t>(),
           "separator"_a, "quote"_a, "decimal"_a, "missing"_a, "columns"_a, "centre"_a, "most_words"_a)
      .def("read", &Reader::read, "text"_a, "size"_a, "last"_a, "numbers"_a, "exact"_a, "words"_a)
      .def("error", &Reader::error)
      .def("error_line", &Reader::error_line)
      .def("error_cells", &Reader::error_cells)
      .def("odd", &Reader::odd, "column"_a, nb::sig("def odd(self, column: int) -> tuple[int, int, bytes]"))
      .def("words", &Reader::words, "place"_a, nb::sig("def words(self, place: int) -> list[bytes]"))
      .def("overflowed", &Reader::overflowed, "place"_a)
      .def("missing", &Reader::missing, "column"_a)
      .def("rows", &Reader::rows)
      .def("line", &Reader::line)
      .def("set_line", &Reader::set_line, "line"_a);
}

}  // namespace openbnns
