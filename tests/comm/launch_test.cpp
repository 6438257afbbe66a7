#include "comm/launch.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "support/support.h"

namespace autotrain {
namespace {

using Variables = std::map<std::string, std::string>;

Environment environment_of(Variables variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

Variables torchrun() {
  return {{"RANK", "3"},
          {"WORLD_SIZE", "4"},
          {"LOCAL_RANK", "1"},
          {"LOCAL_WORLD_SIZE", "2"},
          {"MASTER_ADDR", "host-a"},
          {"MASTER_PORT", "29500"},
          {"TORCHELASTIC_USE_AGENT_STORE", "True"},
          {"TORCHELASTIC_RESTART_COUNT", "2"}};
}

Variables slurm() {
  return {{"SLURM_PROCID", "6"},
          {"SLURM_STEP_NUM_TASKS", "7"},
          {"SLURM_LOCALID", "0"},
          {"SLURM_NODEID", "3"},
          {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"},
          {"SLURM_STEP_NODELIST", "node[07-09,12]"},
          {"SLURM_JOB_ID", "123456"}};
}

Variables open_mpi() {
  return {{"OMPI_COMM_WORLD_RANK", "1"},
          {"OMPI_COMM_WORLD_SIZE", "2"},
          {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
}

Variables hydra() {
  return {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
}

TEST(Launch, WithoutALauncherThereIsOneRank) {
  for (const Variables& variables :
       {Variables{}, Variables{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}},
        Variables{{"SLURM_STEP_NUM_TASKS", "1"}}, Variables{{"OMPI_COMM_WORLD_SIZE", "1"}},
        Variables{{"PMI_SIZE", "1"}}}) {
    const Launch launch = detect_launch(environment_of(variables));
    EXPECT_EQ(launch.by, Launcher::kNone);
    EXPECT_EQ(launch.place.world, 1);
    EXPECT_FALSE(launch.place.host.empty());
  }
}

TEST(Launch, TorchrunComesFirst) {
  Variables all = torchrun();
  all.merge(slurm());
  const Launch launch = detect_launch(environment_of(all));
  EXPECT_EQ(launch.by, Launcher::kTorchrun);
  EXPECT_EQ(launch.place.rank, 3);
  EXPECT_EQ(launch.place.world, 4);
  EXPECT_EQ(launch.place.local_rank, 1);
  EXPECT_EQ(launch.place.local_world, 2);
  EXPECT_EQ(launch.meeting_host, "host-a");
  EXPECT_EQ(launch.meeting_port, 29500);
  EXPECT_TRUE(launch.agent_store);
  EXPECT_EQ(launch.restart, 2);
  EXPECT_FALSE(launch.one_thread);
  all["OMP_NUM_THREADS"] = "1";
  EXPECT_TRUE(detect_launch(environment_of(all)).one_thread);
  all["OMP_NUM_THREADS"] = "3";
  EXPECT_FALSE(detect_launch(environment_of(all)).one_thread) << "somebody meant that";
}

TEST(Launch, SlurmSaysWhereTheFirstHostIs) {
  const Launch launch = detect_launch(environment_of(slurm()));
  EXPECT_EQ(launch.by, Launcher::kSlurm);
  EXPECT_EQ(launch.place.rank, 6);
  EXPECT_EQ(launch.place.local_world, 1) << "the fourth host has one task";
  EXPECT_EQ(launch.meeting_host, "node07");
  EXPECT_EQ(launch.meeting_port, 20000 + 123456 % 20000);
  EXPECT_FALSE(launch.agent_store);
}

TEST(Launch, OpenMpiMeetsOnItsOneHost) {
  const Launch launch = detect_launch(environment_of(open_mpi()));
  EXPECT_EQ(launch.by, Launcher::kOpenMpi);
  EXPECT_EQ(launch.place.rank, 1);
  EXPECT_EQ(launch.meeting_host, "127.0.0.1");
  Variables over_hosts = open_mpi();
  over_hosts["OMPI_COMM_WORLD_SIZE"] = "4";
  const Error error =
      test::expect_error(ExitCode::kUsage, [&] { detect_launch(environment_of(over_hosts)); });
  EXPECT_EQ(error.where(), "MASTER_ADDR");
}

TEST(Launch, MpichAndIntelMpiShareTheirVariables) {
  const Launch launch = detect_launch(environment_of(hydra()));
  EXPECT_EQ(launch.by, Launcher::kHydra);
  EXPECT_EQ(launch.place.rank, 1);
  EXPECT_EQ(launch.place.world, 2);
  EXPECT_EQ(launch.place.local_rank, 1);
  EXPECT_EQ(launch.place.local_world, 2);
  EXPECT_EQ(launch.meeting_host, "127.0.0.1");
  Variables by_slurm = hydra();
  by_slurm.merge(slurm());
  EXPECT_EQ(detect_launch(environment_of(by_slurm)).by, Launcher::kSlurm) << "srun --mpi=pmi2 sets both";
  test::expect_error(ExitCode::kUsage, [] { check_group(environment_of(hydra()), 0, 2); });
}

TEST(Launch, WhatIsMissingOrContradictsIsNamed) {
  const auto refused = [](Variables variables, const std::string& name, const char* value) {
    if (value == nullptr) {
      variables.erase(name);
    } else {
      variables[name] = value;
    }
    const Error error =
        test::expect_error(ExitCode::kUsage, [&] { detect_launch(environment_of(variables)); });
    EXPECT_EQ(error.where(), name);
    EXPECT_FALSE(error.hint().empty());
  };
  for (const char* name :
       {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})
    refused(torchrun(), name, nullptr);
  refused(torchrun(), "RANK", "4");
  refused(torchrun(), "RANK", "-1");
  refused(torchrun(), "WORLD_SIZE", "many");
  refused(torchrun(), "LOCAL_WORLD_SIZE", "1");
  refused(torchrun(), "MASTER_PORT", "70000");
  refused(slurm(), "SLURM_PROCID", "7");
  refused(slurm(), "SLURM_STEP_TASKS_PER_NODE", "2(x");
  refused(slurm(), "SLURM_STEP_TASKS_PER_NODE", "2(x3)");
  for (const char* tasks : {"2(x-3),1", "2(x-9223372036854775808),1", "-2(x3),1", "2(x3),8"})
    refused(slurm(), "SLURM_STEP_TASKS_PER_NODE", tasks);
  refused(slurm(), "SLURM_STEP_NODELIST", "node[07");
  refused(open_mpi(), "OMPI_COMM_WORLD_LOCAL_SIZE", "1");
  refused(hydra(), "MPI_LOCALNRANKS", "1");
  refused(hydra(), "MPI_LOCALRANKID", nullptr);
}

TEST(Launch, TheFirstHostOfSlurmsLists) {
  EXPECT_EQ(first_slurm_host("node07"), "node07");
  EXPECT_EQ(first_slurm_host("a,b"), "a");
  EXPECT_EQ(first_slurm_host("node[07-09,12],login1"), "node07");
  EXPECT_EQ(first_slurm_host("n[3]"), "n3");
  EXPECT_EQ(first_slurm_host("a[01-03,7],b"), "a01");
  EXPECT_EQ(first_slurm_host("node[1-2]-ib0,b[3]"), "node1-ib0")
      << "what stands behind the brackets is of the name";
  EXPECT_EQ(first_slurm_host("rack[2-3]n[07,9]"), "rack2n07");
  EXPECT_EQ(first_slurm_host("n[]"), std::nullopt);
  EXPECT_EQ(first_slurm_host("n[3-"), std::nullopt);
  EXPECT_EQ(first_slurm_host(""), std::nullopt);
  EXPECT_EQ(first_slurm_host("n[3"), std::nullopt);
}

TEST(Launch, TorchrunIsToldTheError) {
  const test::TemporaryFolder folder;
  EXPECT_FALSE(tell_torchrun(environment_of({}), "no", 0));
  EXPECT_FALSE(tell_torchrun(environment_of({{"TORCHELASTIC_ERROR_FILE", "/no/such/folder/x"}}), "no", 0));
  const std::string path = (folder / "error.json").string();
  EXPECT_TRUE(tell_torchrun(environment_of({{"TORCHELASTIC_ERROR_FILE", path}}), "memory\nran \"out\"", 17));
  const auto told = nlohmann::json::parse(test::slurp(path)).at("message");
  EXPECT_EQ(told.at("message"), "memory\nran \"out\"");
  EXPECT_EQ(told.at("extraInfo").at("timestamp"), "17");
}

}  // namespace
}  // namespace autotrain
