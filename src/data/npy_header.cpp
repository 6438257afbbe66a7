#include "data/npy_header.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "autotrain/error.h"
#include "base/text.h"
#include "data/file_kinds.h"

namespace autotrain {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMostDimensions = 64;  // NumPy's own limit

// A header is a Python dictionary of three entries: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3),
// }
class Parser {
 public:
  Parser(const std::filesystem::path& path, std::string_view text, int64_t start)
      : path_(path), text_(text), start_(start) {}

  NpyHeader parse() {
    NpyHeader header;
    std::set<std::string> keys;
    expect('{');
    while (!take('}')) {
      const size_t at = at_;
      const std::string key = string();
      if (!keys.insert(key).second) fail(at, cat("the header names ", quote(key), " twice"));
      expect(':');
      read_value(key, at, header);
      if (!take(',') && peek() != '}') fail(at_, "',' or '}' is missing here");
    }
    peek();
    if (at_ < text_.size()) fail(at_, "the header goes on after its '}'");
    if (keys.size() != 3) fail(0, "the header does not give all of descr, fortran_order and shape");
    return header;
  }

 private:
  [[noreturn]] void fail(size_t at, const std::string& what,
                         const std::string& cure = "write the file with numpy.save") const {
    throw Error(ExitCode::kBadData, cat(path_.string(), ": offset ", start_ + static_cast<int64_t>(at)), what,
                cure);
  }

  // The next character that is not blank, '\0' at the end.
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool take(char wanted) {
    if (peek() != wanted) return false;
    ++at_;
    return true;
  }

  void expect(char wanted) {
    if (!take(wanted)) fail(at_, cat("'", wanted, "' is missing here"));
  }

  void read_value(const std::string& key, size_t key_at, NpyHeader& header) {
    if (key == "descr") {
      header.descr = description();
    } else if (key == "fortran_order") {
      header.fortran_order = boolean();
    } else if (key == "shape") {
      header.shape = shape();
    } else {
      fail(key_at, cat("the header names ", quote(key), ", which NumPy's do not"));
    }
  }

  std::string description() {
    if (peek() != '[') return string();
    fail(at_, "the elements are records of several fields; one plain type is read",
         "save one field, array['name'], or all: numpy.lib.recfunctions.structured_to_unstructured(array)");
  }

  std::string string() {
    const char mark = peek();
    const size_t end = mark == '\'' || mark == '"' ? text_.find(mark, at_ + 1) : std::string_view::npos;
    if (end == std::string_view::npos) fail(at_, "a text in quotes is missing here");
    const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
    if (inside.find('\\') != std::string_view::npos) fail(at_, "a text with a backslash is not read");
    at_ = end + 1;
    return std::string(inside);
  }

  bool boolean() {
    peek();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += word.size();
      return value;
    }
    fail(at_, "True or False is missing here");
  }

  std::vector<int64_t> shape() {
    std::vector<int64_t> sizes;
    expect('(');
    while (!take(')')) {
      if (sizes.size() == kMostDimensions)
        fail(at_, cat("the shape has more than ", kMostDimensions, " dimensions"));
      sizes.push_back(size());
      // (5) is a number in Python; a tuple of one is (5,).
      const bool comma = take(',');
      if (!comma && (peek() != ')' || sizes.size() == 1)) fail(at_, "',' is missing here");
    }
    return sizes;
  }

  int64_t size() {
    peek();
    const size_t end = std::min(text_.find_first_not_of("0123456789", at_), text_.size());
    int64_t value = 0;
    if (!parse_integer(text_.substr(at_, end - at_), value)) fail(at_, "a size below 2⁶³ is missing here");
    at_ = end;
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // as Python 2 wrote long integers
    return value;
  }

  const std::filesystem::path& path_;
  std::string_view text_;
  int64_t start_;  // of the text in the file
  size_t at_ = 0;
};

[[noreturn]] void fail(const std::filesystem::path& path, size_t offset, const std::string& what) {
  throw Error(ExitCode::kBadData, cat(path.string(), ": offset ", offset), what,
              "the file is damaged, or was not written by numpy.save");
}

// What is there in the place of an array.
[[noreturn]] void fail_kind(const std::filesystem::path& path, std::span<const uint8_t> file) {
  constexpr uint8_t kZip = 'P', kPickle = 0x80;
  if (file.empty())
    throw Error(ExitCode::kBadData, path.string(), "is empty", "write it again with numpy.save");
  const FileKind kind = kind_of_file(file);
  if (!kind.name.empty() && file[0] == kZip) {
    throw Error(ExitCode::kBadData, path.string(),
                cat("is ", kind.name, ", as numpy.savez and torch.save write"),
                "write each array with numpy.save: numpy.save(path, numpy.load(archive)['name'])");
  }
  const bool pickle = file[0] == kPickle, text = is_text(file.first(std::min<size_t>(file.size(), 1 << 16)));
  if (kind.name.empty() && !pickle && !text) fail(path, 0, "does not start as a .npy file does");
  throw Error(
      ExitCode::kBadData, path.string(),
      cat("is ",
          pickle ? "a pickle of Python's"
          : text ? "text"
                 : kind.name,
          ", not an array"),
      text ? "write it again: numpy.save(path, numpy.loadtxt(file, delimiter=',')); a CSV file is read "
             "with dataset: table"
           : "write the array with numpy.save");
}

}  // namespace

NpyHeader parse_npy_header(const std::filesystem::path& path, std::span<const uint8_t> file) {
  const std::string_view bytes(reinterpret_cast<const char*>(file.data()), file.size());
  if (!bytes.starts_with(kMagic)) fail_kind(path, file);
  const size_t version_at = kMagic.size();
  const unsigned version = file.size() > version_at ? file[version_at] : 0;
  if (version < 1 || version > 3)
    fail(path, version_at, cat("version ", version, " of the format; 1 to 3 are read"));

  const size_t length_at = version_at + 2;
  const size_t length_bytes = version == 1 ? 2 : 4;
  const size_t text_at = length_at + length_bytes;
  if (file.size() < text_at) fail(path, file.size(), "the file ends inside its header");
  size_t length = 0;
  for (size_t i = length_bytes; i-- > 0;) length = length << 8 | file[length_at + i];
  if (length > file.size() - text_at) {
    fail(path, length_at, cat("the header has ", length, " bytes; ", file.size() - text_at, " are there"));
  }
  NpyHeader header = Parser(path, bytes.substr(text_at, length), static_cast<int64_t>(text_at)).parse();
  header.data_offset = static_cast<int64_t>(text_at + length);
  return header;
}

}  // namespace autotrain
