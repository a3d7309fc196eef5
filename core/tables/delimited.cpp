#include "tables/delimited.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tables/numbers.h"

namespace openbnns {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 26;  // of all words of a column
constexpr size_t kShown = 60;                     // bytes of a cell in a message

bool is_space(char c) { return c == ' ' || c == '\t'; }
bool is_end(char c) { return c == '\n' || c == '\r'; }

// Whether the bytes are UTF-8, as far as length and form of its sequences go.
bool is_text(std::string_view s) {
  for (size_t i = 0; i < s.size();) {
    const auto c = static_cast<unsigned char>(s[i++]);
    if (c < 0x80) continue;
    const int more = c >= 0xF0 && c <= 0xF4 ? 3 : c >= 0xE0 && c < 0xF0 ? 2 : c >= 0xC2 && c < 0xE0 ? 1 : -1;
    if (more < 0 || i + static_cast<size_t>(more) > s.size()) return false;
    for (int j = 0; j < more; j++, i++)
      if ((static_cast<unsigned char>(s[i]) & 0xC0) != 0x80) return false;
  }
  return true;
}

}  // namespace

int32_t Words::number(std::string_view word) {
  if (latest_ >= 0 && all_[static_cast<size_t>(latest_)] == word) return latest_;  // as in sorted tables
  key_.assign(word);
  const auto found = numbers_.find(key_);
  if (found != numbers_.end()) return latest_ = found->second;
  bytes_ += static_cast<int64_t>(word.size()) + 64;
  if (static_cast<int64_t>(all_.size()) >= most_ || bytes_ > kMostBytes) {
    overflowed_ = true;
    return kTooMany;
  }
  const auto number = static_cast<int32_t>(all_.size());
  all_.push_back(key_);
  numbers_.emplace(key_, number);
  return latest_ = number;
}

struct DelimitedReader::Cell {
  std::string_view text;  // without quotes and spaces around
  bool quoted = false;
  bool number = false;
  double value = 0;
};

DelimitedReader::DelimitedReader(DelimitedFormat format, std::vector<Column> columns, std::vector<double> centre,
                                 int64_t most_words)
    : odd(columns.size()),
      missing(columns.size()),
      format_(std::move(format)),
      columns_(std::move(columns)),
      centre_(std::move(centre)) {
  for (Column column : columns_) {
    const bool worded = column == Column::kWord || column == Column::kBoth;
    word_place_.push_back(static_cast<int32_t>(worded ? worded_++ : -1));
    place_.push_back(static_cast<int32_t>(column == Column::kNumber ? numbers_++
                                          : column == Column::kBoth ? exacts_++
                                                                    : -1));
    if (worded) words.emplace_back(most_words);
  }
  for (const std::string& text : format_.missing) longest_missing_ = std::max(longest_missing_, text.size());
}

bool DelimitedReader::is_missing(std::string_view cell) const {
  if (cell.empty()) return true;
  if (cell.size() > longest_missing_) return false;
  return std::any_of(format_.missing.begin(), format_.missing.end(), [&](const std::string& m) { return cell == m; });
}

bool DelimitedReader::fail(TableError what, int64_t cells) {
  error = what;
  error_line = row_line_;
  error_cells = cells;
  return false;
}

// A cell from p on; returns the separator or the end of the line behind it, nullptr if the text ends before that is
// known.
const char* DelimitedReader::read_cell(const char* p, const char* end, bool last, Cell* cell) {
  while (p != end && is_space(*p) && *p != format_.separator) p++;
  if (p != end && *p == format_.quote && format_.quote) {
    cell->quoted = true;
    unquoted_.clear();
    const int64_t first_line = next_line_;
    for (p++;;) {
      const void* found = std::memchr(p, format_.quote, static_cast<size_t>(end - p));
      if (!found) {
        if (last) fail(TableError::kQuote);
        return nullptr;
      }
      const char* quote = static_cast<const char*>(found);
      next_line_ += std::count(p, quote, '\n');
      unquoted_.append(p, quote);
      p = quote + 1;
      if (p == end && !last) return nullptr;
      if (p == end || *p != format_.quote) break;
      unquoted_.push_back(format_.quote);
      p++;
    }
    while (p != end && *p != format_.separator && !is_end(*p)) {  // what stands behind the quotes belongs to it, too
      if (!is_space(*p)) {
        if (next_line_ != first_line) {  // the quote that should have closed the cell lines ago is missing
          fail(TableError::kQuote);
          return nullptr;
        }
        unquoted_.push_back(*p);
      }
      p++;
    }
    cell->text = unquoted_;
  } else {
    const char* begin = p;
    double value;
    const char* behind = read_number(p, end, format_.decimal, &value);
    if (behind) {
      while (behind != end && is_space(*behind) && *behind != format_.separator) behind++;
      if (behind == end ? last : (*behind == format_.separator || is_end(*behind))) {
        cell->number = true;
        cell->value = value;
        p = behind;
      }
    }
    while (p != end && *p != format_.separator && !is_end(*p)) p++;
    const char* close = p;
    while (close != begin && is_space(close[-1])) close--;
    cell->text = {begin, static_cast<size_t>(close - begin)};
  }
  return p == end && !last ? nullptr : p;
}

void DelimitedReader::note_odd(size_t column, std::string_view cell) {
  row_odd_.push_back(column);
  if (odd[column].count == 0) odd[column].cell.assign(cell.substr(0, kShown));
}

void DelimitedReader::store(size_t column, const Cell& cell, const Rows& to) {
  const Column kind = columns_[column];
  if (kind == Column::kIgnored) return;
  const bool none = is_missing(cell.text);
  if (none) row_missing_.push_back(column);
  const int64_t row = rows;
  if (kind == Column::kNumber || kind == Column::kBoth) {
    double value = std::numeric_limits<double>::quiet_NaN();
    if (cell.number && !none) {
      value = cell.value;
    } else if (!none) {
      const char* begin = cell.text.data();
      const char* end = begin + cell.text.size();
      if (read_number(begin, end, format_.decimal, &value) != end) {  // numbers may stand in quotes
        value = std::numeric_limits<double>::quiet_NaN();
        note_odd(column, cell.text);
      }
    }
    if (kind == Column::kNumber) {
      const auto narrow = static_cast<float>(value - centre_[static_cast<size_t>(place_[column])]);
      if (std::isinf(narrow)) note_odd(column, cell.text);
      to.numbers[row * numbers_ + place_[column]] = narrow;
    } else {
      to.exact[row * exacts_ + place_[column]] = value;
    }
  }
  if (kind == Column::kWord || kind == Column::kBoth) {
    const auto place = static_cast<size_t>(word_place_[column]);
    int32_t number = Words::kMissing;
    if (!none) {
      const size_t before = words[place].all().size();
      number = words[place].number(cell.text);
      if (words[place].all().size() != before && !is_text(cell.text)) fail(TableError::kNotText);
    }
    to.words[row * worded_ + static_cast<int64_t>(place)] = number;
  }
}

const char* DelimitedReader::read_row(const char* p, const char* end, bool last, const Rows& to) {
  const char* begin = p;
  next_line_ = line;
  row_line_ = line;
  row_missing_.clear();
  row_odd_.clear();
  int64_t cells = 0;
  bool anything = false;
  for (;; p++) {
    Cell cell;
    p = read_cell(p, end, last, &cell);
    if (!p) return nullptr;  // the row is read again when there is more
    anything = anything || cell.quoted || !cell.text.empty();
    if (cells < static_cast<int64_t>(columns_.size())) store(static_cast<size_t>(cells), cell, to);
    if (error != TableError::kNone) return nullptr;
    cells++;
    if (p == end || is_end(*p)) break;
  }
  if (std::memchr(begin, 0, static_cast<size_t>(p - begin))) {
    fail(TableError::kZero);
    return nullptr;
  }
  if (p != end) {
    if (*p == '\r' && p + 1 == end && !last) return nullptr;
    p += *p == '\r' && p + 1 != end && p[1] == '\n' ? 2 : 1;
    next_line_++;
  }
  if (anything) {
    if (cells != static_cast<int64_t>(columns_.size())) {
      fail(TableError::kRagged, cells);
      return nullptr;
    }
    rows++;
    for (size_t column : row_missing_) missing[column]++;
    for (size_t column : row_odd_)
      if (odd[column].count++ == 0) odd[column].line = row_line_;
  }
  line = next_line_;
  return p;
}

int64_t DelimitedReader::read(const char* text, int64_t size, bool last, const Rows& to) {
  const char *p = text, *end = text + size;
  rows = 0;
  error = TableError::kNone;
  while (p != end && rows < to.capacity) {
    const char* next = read_row(p, end, last, to);
    if (!next) break;
    p = next;
  }
  return p - text;
}

}  // namespace openbnns
