#include "comm/gathered.h"

#include <string_view>

#include "base/text.h"

namespace autotrain {

// A part is a line with the rank and the bytes of its text, and the text.
std::vector<uint8_t> gathered_part(int64_t rank, const std::string& text) {
  const std::string part = cat(rank, ' ', text.size(), '\n', text);
  return {part.begin(), part.end()};
}

std::map<int64_t, std::string> read_gathered(const std::vector<uint8_t>& value, int64_t world) {
  std::map<int64_t, std::string> texts;
  std::string_view rest(reinterpret_cast<const char*>(value.data()), value.size());
  for (;;) {
    const size_t space = rest.find(' '), line = rest.find('\n');
    int64_t rank = -1, bytes = -1;
    if (line == std::string_view::npos || space > line || !parse_integer(rest.substr(0, space), rank) ||
        !parse_integer(rest.substr(space + 1, line - space - 1), bytes))
      return texts;
    rest.remove_prefix(line + 1);
    if (rank < 0 || rank >= world || bytes < 0 || static_cast<size_t>(bytes) > rest.size()) return texts;
    texts[rank] = rest.substr(0, static_cast<size_t>(bytes));
    rest.remove_prefix(static_cast<size_t>(bytes));
  }
}

}  // namespace autotrain
