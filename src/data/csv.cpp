// Debian's libcsv tells neither line nor column of what it reads, and its fast-cpp-csv-parser must know the
// columns when it is compiled.
#include "data/csv.h"

#include <algorithm>

#include "autotrain/error.h"
#include "base/text.h"

namespace autotrain {

namespace {

constexpr std::string_view kSeparatorLine = "sep=";

}  // namespace

char CsvReader::named_separator(std::string_view content) {
  content = without_byte_order_mark(content);
  if (!content.starts_with(kSeparatorLine) || content.size() == kSeparatorLine.size()) return 0;
  const char separator = content[kSeparatorLine.size()];
  const std::string_view rest = content.substr(kSeparatorLine.size() + 1);
  const bool ends = rest.empty() || rest.starts_with('\n') || rest.starts_with("\r\n");
  return ends && separator != '\r' && separator != '\n' && separator != '"' ? separator : '\0';
}

CsvReader::CsvReader(std::string_view content, std::string file, char separator)
    : content_(content), file_(std::move(file)), separator_(separator) {
  at_ = line_start_ = content_.size() - without_byte_order_mark(content_).size();
  if (named_separator(content) == 0) return;
  at_ += kSeparatorLine.size() + 1;
  pass_line_end();
}

bool CsvReader::next(std::vector<CsvField>& fields) & {
  fields.clear();
  unescaped_.clear();
  while (at_ < content_.size() && at_line_end()) pass_line_end();
  if (at_ == content_.size()) return false;
  while (true) {
    pass_blanks_before_a_quote();
    fields.push_back(at_ < content_.size() && content_[at_] == '"' ? quoted_field() : plain_field());
    if (at_line_end()) break;
    ++at_;  // the separator
  }
  pass_line_end();
  return true;
}

// A blank behind each separator: a, "b, c". Only before a field that is quoted to its end.
void CsvReader::pass_blanks_before_a_quote() {
  const auto blanks_end = [this](size_t at) {
    while (at < content_.size() && content_[at] == ' ' && separator_ != ' ') ++at;
    return at;
  };
  const size_t quote = blanks_end(at_);
  if (quote == at_ || quote == content_.size() || content_[quote] != '"') return;
  size_t end = content_.find('"', quote + 1);
  while (end != std::string_view::npos && end + 1 < content_.size() && content_[end + 1] == '"')
    end = content_.find('"', end + 2);
  if (end == std::string_view::npos) return;
  const size_t next = end + 1;
  const bool ends = next == content_.size() || content_[next] == separator_ || content_[next] == '\n' ||
                    content_[next] == '\r';
  if (ends) at_ = quote;
}

CsvField CsvReader::start_field() const {
  return {.text = {}, .line = line_, .column = static_cast<int64_t>(at_ - line_start_) + 1};
}

CsvField CsvReader::plain_field() {
  CsvField field = start_field();
  const size_t start = at_;
  while (!at_line_end() && content_[at_] != separator_) ++at_;
  field.text = content_.substr(start, at_ - start);
  return field;
}

CsvField CsvReader::quoted_field() {
  CsvField field = start_field();
  field.quoted = true;
  field.text = text_to_closing_quote(field);
  while (at_ < content_.size() && content_[at_] == '"') {  // a doubled quote stands for one
    if (unescaped_.empty() || unescaped_.back().data() != field.text.data()) {
      unescaped_.emplace_back(field.text);
    }
    unescaped_.back() += '"';
    unescaped_.back() += text_to_closing_quote(field);
    field.text = unescaped_.back();
  }
  if (!at_line_end() && content_[at_] != separator_) {
    fail(start_field(), "the field goes on after its closing quote",
         "write a quote inside a quoted field twice");
  }
  return field;
}

// From an opening quote, or the second of a doubled one, to beyond the next.
std::string_view CsvReader::text_to_closing_quote(const CsvField& field) {
  const size_t start = at_ + 1;
  const size_t end = content_.find('"', start);
  if (end == std::string_view::npos)
    fail(field, "the quote that opens this field is never closed", "close it");
  const std::string_view text = content_.substr(start, end - start);
  pass_newlines(text);
  at_ = end + 1;
  return text;
}

// At LF, at CRLF, at a CR that is the last byte, or at the end.
bool CsvReader::at_line_end() const {
  if (at_ == content_.size() || content_[at_] == '\n') return true;
  return content_[at_] == '\r' && (at_ + 1 == content_.size() || content_[at_ + 1] == '\n');
}

void CsvReader::pass_line_end() {
  if (at_ < content_.size() && content_[at_] == '\r') ++at_;
  if (at_ < content_.size()) ++at_;
  ++line_;
  line_start_ = at_;
}

// `text` is a part of the content.
void CsvReader::pass_newlines(std::string_view text) {
  line_ += std::count(text.begin(), text.end(), '\n');
  const size_t last = text.rfind('\n');
  if (last == std::string_view::npos) return;
  line_start_ = static_cast<size_t>(text.data() - content_.data()) + last + 1;
}

void CsvReader::fail(const CsvField& at, const std::string& what, const std::string& hint) const {
  throw Error(ExitCode::kBadData, cat(file_, ":", at.line, ":", at.column), what, hint);
}

}  // namespace autotrain
