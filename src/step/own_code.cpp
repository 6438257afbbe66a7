#include "step/own_code.h"

#include <system_error>

#include "autotrain/error.h"
#include "base/text.h"
#include "device/failure.h"
#include "model/models.h"

namespace autotrain {
namespace {

// A thread for which there is no room says no more than its code; who waits in vain for a socket, whose.
bool is_of_the_program(const std::exception& error) {
  const auto* const system = dynamic_cast<const std::system_error*>(&error);
  return system != nullptr && system->code() == std::errc::resource_unavailable_try_again &&
         system->what() != system->code().message();
}

}  // namespace

bool runs_own_code(const torch::nn::Module& module) {
  const Network* const network = as_network(module);
  return network == nullptr || network->is_users_own();
}

void rethrow_from_user(const std::string& method, const std::string& with) {
  try {
    throw;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    if (classify_failure(error) != Failure::kOther && !is_of_the_program(error)) throw;
    if (is_of_device(error)) throw;  // work that was queued on a GPU before fails in whoever asks next
    throw Error(
        ExitCode::kBrokenContract, method,
        cat("threw", with.empty() ? "" : " ", with, ": ", first_line(error)),
        "it is code of your own: mend it, or throw autotrain::Error to end the run with a code of yours");
  }
}

}  // namespace autotrain
