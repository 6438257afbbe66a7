#include "comm/launch.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>

#include "autotrain/error.h"
#include "base/json.h"
#include "base/text.h"

namespace autotrain {
namespace {

constexpr int64_t kMostRanks = 1 << 20;
constexpr int64_t kFirstPort = 20000, kPorts = 20000;  // where ranks meet when nobody names a port

[[noreturn]] void fail(const std::string& variable, const std::string& what, const std::string& hint) {
  throw Error(ExitCode::kUsage, variable, what, hint);
}

// Reads the variables of one launcher.
class Variables {
 public:
  Variables(const Environment& environment, Launcher launcher)
      : environment_(environment), launcher_(launcher) {}

  std::string text(const std::string& name) const {
    const auto value = environment_(name);
    if (!value || value->empty())
      fail(name, "is not set, although other variables of " + to_string(launcher_) + " are", hint());
    return *value;
  }

  int64_t number(const std::string& name, int64_t least, int64_t most) const {
    int64_t value = 0;
    const std::string given = text(name);
    if (!parse_integer(given, value) || value < least || value > most)
      fail(name, cat("is ", quote(given), " and should be a number from ", least, " to ", most), hint());
    return value;
  }

  int64_t number_or(int64_t fallback, const std::string& name, int64_t least, int64_t most) const {
    return environment_(name) ? number(name, least, most) : fallback;
  }

  int64_t port_or(int64_t fallback) const { return number_or(fallback, "MASTER_PORT", 1, 65535); }

 private:
  std::string hint() const {
    return "start the program with " + to_string(launcher_) +
           " itself, or unset its variables to run one rank";
  }

  const Environment& environment_;
  Launcher launcher_;
};

// Who set variables of its own. Shells of sbatch and salloc have SLURM_NTASKS too, but only a step has what
// is asked for here.
Launcher launcher_of(const Environment& environment) {
  if (environment("RANK") || environment("WORLD_SIZE")) return Launcher::kTorchrun;
  if (environment("SLURM_STEP_NUM_TASKS").value_or("1") != "1") return Launcher::kSlurm;
  if (environment("OMPI_COMM_WORLD_SIZE").value_or("1") != "1") return Launcher::kOpenMpi;
  if (environment("PMI_SIZE").value_or("1") != "1") return Launcher::kHydra;
  return Launcher::kNone;
}

// The names of the variables that say which rank this is.
struct RankNames {
  const char* rank;
  const char* world;
  const char* local_rank;
  const char* local_world;  // null where another says it
};

constexpr RankNames kTorchrunNames = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr RankNames kSlurmNames = {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr};
constexpr RankNames kOpenMpiNames = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr RankNames kHydraNames = {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};

const RankNames& names_of(Launcher launcher) {
  switch (launcher) {
    case Launcher::kSlurm: return kSlurmNames;
    case Launcher::kOpenMpi: return kOpenMpiNames;
    case Launcher::kHydra: return kHydraNames;
    default: return kTorchrunNames;
  }
}

void read_ranks(const Variables& variables, const RankNames& names, Launch& launch) {
  launch.place.world = variables.number(names.world, 1, kMostRanks);
  launch.place.rank = variables.number(names.rank, 0, launch.place.world - 1);
  launch.place.host = own_host();
  launch.place.local_rank = variables.number(names.local_rank, 0, launch.place.world - 1);
  if (names.local_world == nullptr) return;
  launch.place.local_world =
      variables.number(names.local_world, launch.place.local_rank + 1, launch.place.world);
}

Launch of_torchrun(const Environment& environment) {
  const Variables variables(environment, Launcher::kTorchrun);
  Launch launch{.by = Launcher::kTorchrun};
  read_ranks(variables, kTorchrunNames, launch);
  launch.meeting_host = variables.text("MASTER_ADDR");
  launch.meeting_port = variables.number("MASTER_PORT", 1, 65535);
  launch.agent_store = environment("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
  launch.restart = variables.number_or(0, "TORCHELASTIC_RESTART_COUNT", 0, kMostRanks);
  launch.one_thread = launch.place.local_world > 1 && environment("OMP_NUM_THREADS").value_or("") == "1";
  return launch;
}

// How many tasks this host has, from "2(x3),1": for each host in turn the number of its tasks.
std::optional<int64_t> tasks_on(int64_t host, const std::string& list) {
  for (const std::string& part : split(list, ',')) {
    const size_t times = part.find("(x");
    int64_t tasks = 0, hosts = 1;
    if (!parse_integer(part.substr(0, times), tasks)) return std::nullopt;
    if (times != std::string::npos) {
      const std::string repeated = part.substr(times + 2, part.size() - times - 3);
      if (!part.ends_with(')') || !parse_integer(repeated, hosts)) return std::nullopt;
    }
    if (tasks < 1 || hosts < 1) return std::nullopt;
    if (host < hosts) return tasks;
    host -= hosts;
  }
  return std::nullopt;
}

Launch of_slurm(const Environment& environment) {
  const Variables variables(environment, Launcher::kSlurm);
  Launch launch{.by = Launcher::kSlurm};
  read_ranks(variables, kSlurmNames, launch);
  const std::string per_host = variables.text("SLURM_STEP_TASKS_PER_NODE");
  const auto here = tasks_on(variables.number("SLURM_NODEID", 0, kMostRanks), per_host);
  if (!here || *here <= launch.place.local_rank || *here > launch.place.world) {
    fail("SLURM_STEP_TASKS_PER_NODE",
         cat("is ", quote(per_host), ", which has no rank ", launch.place.local_rank, " of ",
             launch.place.world, " on this host"),
         "start the program with srun");
  }
  launch.place.local_world = *here;
  const std::string hosts = variables.text("SLURM_STEP_NODELIST");
  const auto first = first_slurm_host(hosts);
  if (!first)
    fail("SLURM_STEP_NODELIST", cat("is ", quote(hosts), ", which names no host"), "start it with srun");
  launch.meeting_host = environment("MASTER_ADDR").value_or(*first);
  const int64_t job = environment("MASTER_PORT") ? 0 : variables.number("SLURM_JOB_ID", 0, INT64_MAX);
  launch.meeting_port = variables.port_or(kFirstPort + job % kPorts);
  return launch;
}

// What an mpirun starts.
Launch of_mpi(const Environment& environment, Launcher launcher) {
  const Variables variables(environment, launcher);
  Launch launch{.by = launcher};
  read_ranks(variables, names_of(launcher), launch);
  const bool one_host = launch.place.local_world == launch.place.world;
  // No mpirun says where the other hosts could meet.
  launch.meeting_host =
      one_host ? environment("MASTER_ADDR").value_or("127.0.0.1") : variables.text("MASTER_ADDR");
  launch.meeting_port = variables.port_or(kFirstPort);
  return launch;
}

}  // namespace

std::string to_string(Launcher launcher) {
  switch (launcher) {
    case Launcher::kNone: return "none";
    case Launcher::kTorchrun: return "torchrun";
    case Launcher::kSlurm: return "Slurm";
    case Launcher::kOpenMpi: return "Open MPI";
    case Launcher::kHydra: return "MPICH or Intel MPI";
  }
  return "";
}

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* const value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

std::string own_host() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "an unnamed host";
}

Launch detect_launch(const Environment& environment) {
  const Launcher launcher = launcher_of(environment);
  switch (launcher) {
    case Launcher::kTorchrun: return of_torchrun(environment);
    case Launcher::kSlurm: return of_slurm(environment);
    case Launcher::kOpenMpi:
    case Launcher::kHydra: return of_mpi(environment, launcher);
    case Launcher::kNone: break;
  }
  Launch launch;
  launch.place.host = own_host();
  return launch;
}

void check_group(const Environment& environment, int64_t rank, int64_t world) {
  const Launcher launcher = launcher_of(environment);
  if (launcher == Launcher::kNone) return;
  const RankNames& names = names_of(launcher);
  for (const auto& [name, of_group] : {std::pair(names.world, world), std::pair(names.rank, rank)}) {
    const std::string said = environment(name).value_or("");
    if (said.empty() || said == std::to_string(of_group)) continue;
    fail(name,
         cat("is ", quote(said), ", and the process group that was handed over is that of rank ", rank,
             " of ", world),
         "hand over the group of all ranks, or unset the variables of " + to_string(launcher) +
             " where only some of them make the run");
  }
}

std::optional<std::string> first_slurm_host(const std::string& list) {
  std::string host;
  for (size_t at = 0; at < list.size() && list[at] != ','; ++at) {
    if (list[at] != '[') {
      host += list[at];
      continue;
    }
    const size_t end = list.find_first_of("-,]", at + 1), close = list.find(']', at + 1);
    if (close == std::string::npos || end == at + 1) return std::nullopt;
    host += list.substr(at + 1, end - at - 1);
    at = close;
  }
  return host.empty() ? std::nullopt : std::optional(host);
}

bool tell_torchrun(const Environment& environment, const std::string& message, int64_t seconds_since_1970) {
  const auto path = environment("TORCHELASTIC_ERROR_FILE");
  if (!path || path->empty()) return false;
  const nlohmann::ordered_json error = {
      {"message",
       {{"message", message},
        {"extraInfo", {{"py_callstack", message}, {"timestamp", std::to_string(seconds_since_1970)}}}}}};
  WithoutLocale<std::ofstream> file(*path);
  file << text_of_json(error, kOneLine);
  return static_cast<bool>(file.flush());
}

}  // namespace autotrain
