#include "setup/first_meeting.h"

#include <gtest/gtest.h>

#include "autotrain/error.h"
#include "support/support.h"

namespace autotrain {
namespace {

TEST(SharedGpus, AreRefusedWithTheNamesOfBothRanks) {
  try {
    refuse_shared_gpus({{"node1", "0000:3b:00.0"}, {"node2", "0000:3b:00.0"}, {"node1", "0000:3b:00.0"}});
    FAIL() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_TRUE(test::holds(error.problem(), "ranks 0 and 2 on node1 both have the GPU at 0000:3b:00.0"));
  }
}

// Launchers may show each process its own GPU alone, so that all call theirs the first one.
TEST(SharedGpus, AreToldByWhereTheySit) {
  EXPECT_NO_THROW(refuse_shared_gpus({{"node1", "0000:3b:00.0"}, {"node1", "0000:5e:00.0"}}));
}

TEST(SharedGpus, ProcessorsAreNone) {
  EXPECT_NO_THROW(refuse_shared_gpus({{"node1", ""}, {"node1", ""}}));
}

}  // namespace
}  // namespace autotrain
