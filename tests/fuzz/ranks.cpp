#include <map>

#include "base/text.h"
#include "comm/gathered.h"
#include "comm/launch.h"
#include "comm/message.h"
#include "fuzz.h"

// What a rank reads of others: their messages, and the variables of whoever started it, "NAME=value" each.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace autotrain;
  const std::string text(reinterpret_cast<const char*>(data), size);
  fuzz::expect_error_or_result([&] {
    // What was read is written and read again as the same.
    const std::string written = write_message(read_message(text));
    if (write_message(read_message(written)) != written) __builtin_trap();
  });
  constexpr int64_t kWorld = 4;
  const std::map<int64_t, std::string> gathered = read_gathered({data, data + size}, kWorld);
  std::vector<uint8_t> again;
  for (const auto& [rank, part] : gathered) {
    if (rank < 0 || rank >= kWorld) __builtin_trap();
    for (const uint8_t byte : gathered_part(rank, part)) again.push_back(byte);
  }
  if (read_gathered(again, kWorld) != gathered) __builtin_trap();
  fuzz::expect_error_or_result([&] {
    std::map<std::string, std::string> variables;
    for (const std::string& line : split(text, '\n')) {
      const size_t equals = line.find('=');
      if (equals != std::string::npos) variables[line.substr(0, equals)] = line.substr(equals + 1);
    }
    const Launch launch = detect_launch([&](const std::string& name) -> std::optional<std::string> {
      const auto found = variables.find(name);
      return found == variables.end() ? std::nullopt : std::optional(found->second);
    });
    const Place& place = launch.place;
    if (place.rank < 0 || place.rank >= place.world || place.local_rank < 0 ||
        place.local_rank >= place.local_world || launch.meeting_port < 0 || launch.meeting_port > 65535)
      __builtin_trap();
  });
  return 0;
}
