#include "comm/message.h"

#include "base/error_json.h"
#include "base/json.h"

namespace autotrain {
namespace {

using Note = Message::Note;

constexpr const char *kNote = "note", *kFailure = "failure", *kEnd = "end", *kHost = "host";

}  // namespace

std::string write_message(const Message& message) {
  Note json = {{kNote, message.note}};
  if (!message.host.empty()) json[kHost] = message.host;
  if (message.failure) json[kFailure] = {message.failure->kind, message.failure->what};
  if (message.end) json[kEnd] = error_to_json(*message.end);
  return words_of_json(json);
}

Message read_message(const std::string& text) {
  try {
    const Note json = Note::parse(text);
    Message message{.note = json.at(kNote), .host = json.value(kHost, "")};
    if (json.contains(kFailure)) {
      const Note& failure = json.at(kFailure);
      message.failure = {whole_number<int>(failure.at(0)), failure.at(1).get<std::string>()};
    }
    if (json.contains(kEnd)) message.end = error_from_json(json.at(kEnd));
    return message;
  } catch (const nlohmann::json::exception&) {
    throw Error(ExitCode::kInterrupted, "the store that ranks meet at",
                "holds a message that no rank of this run has written",
                "keep its network private, and start the run again with --resume");
  }
}

}  // namespace autotrain
