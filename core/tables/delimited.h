// Tables as text: lines of cells with a separator between them, as CSV and TSV files have them.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace openbnns {

enum class Column : uint8_t {
  kIgnored,
  kNumber,  // to a float
  kWord,    // to the number of a word
  kBoth,    // to a double and to the number of a word
};

// The different cells of a column, numbered as they come.
class Words {
 public:
  explicit Words(int64_t most) : most_(most) {}
  // The number of a word; kTooMany if it is a new one and there are too many already.
  int32_t number(std::string_view word);
  const std::vector<std::string>& all() const { return all_; }
  bool overflowed() const { return overflowed_; }
  static constexpr int32_t kMissing = -1, kTooMany = -2;

 private:
  std::unordered_map<std::string, int32_t> numbers_;
  std::vector<std::string> all_;
  std::string key_;
  int32_t latest_ = -1;
  int64_t most_, bytes_ = 0;
  bool overflowed_ = false;
};

// A column of numbers in which something is none.
struct Odd {
  int64_t count = 0, line = 0;
  std::string cell;
};

struct DelimitedFormat {
  char separator = ',', quote = '"', decimal = '.';
  std::vector<std::string> missing;  // cells that stand for nothing, besides empty ones
};

enum class TableError { kNone, kRagged, kQuote, kZero, kNotText };

class DelimitedReader {
 public:
  DelimitedReader(DelimitedFormat format, std::vector<Column> columns, std::vector<double> centre, int64_t most_words);

  // Where the rows of a call go: (rows, columns of that kind), each row after the other.
  struct Rows {
    float* numbers;  // minus the centre of their columns
    double* exact;   // of columns that are both
    int32_t* words;  // of columns that are words or both
    int64_t capacity;
  };

  // Reads whole rows from the text, as many as there is room for. `last`: the table ends with it. Returns the bytes
  // read.
  int64_t read(const char* text, int64_t size, bool last, const Rows& to);

  int64_t rows = 0;  // of the latest call
  int64_t line = 1;  // that comes next
  TableError error = TableError::kNone;
  int64_t error_line = 0, error_cells = 0;
  std::vector<Odd> odd;          // by column
  std::vector<Words> words;      // by column of words
  std::vector<int64_t> missing;  // cells, by column

 private:
  struct Cell;
  // One row at p; returns its end, nullptr if it is cut off or wrong.
  const char* read_row(const char* p, const char* end, bool last, const Rows& to);
  const char* read_cell(const char* p, const char* end, bool last, Cell* cell);
  void store(size_t column, const Cell& cell, const Rows& to);
  void note_odd(size_t column, std::string_view cell);
  bool is_missing(std::string_view cell) const;
  bool fail(TableError what, int64_t cells = 0);

  DelimitedFormat format_;
  std::vector<Column> columns_;
  std::vector<int32_t> place_;       // among the columns of its kind
  std::vector<int32_t> word_place_;  // of columns that are words or both
  std::vector<double> centre_;
  int64_t numbers_ = 0, exacts_ = 0, worded_ = 0;
  size_t longest_missing_ = 0;
  std::string unquoted_;
  std::vector<size_t> row_missing_, row_odd_;  // columns of the row that is read: counted when it is whole
  int64_t row_line_ = 1, next_line_ = 1;
};

}  // namespace openbnns
