#include "lathe/backends/group/world.h"

#include <gtest/gtest.h>

#include <array>
#include <map>

#include "lathe/core/error.h"

namespace lathe::group {
namespace {

std::optional<World> world_of(const std::map<std::string, std::string>& variables) {
  return world([&](const char* name) -> const char* {
    const auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  });
}

TEST(World, NoVariablesOrOneProcessIsNone) {
  EXPECT_FALSE(world_of({}));
  EXPECT_FALSE(world_of({{"RANK", "0"}, {"WORLD_SIZE", "1"}}));
  EXPECT_FALSE(world_of({{"RANK", "0"}}));
}

TEST(World, TorchrunsVariables) {
  const auto w = world_of({{"RANK", "5"},
                           {"WORLD_SIZE", "8"},
                           {"LOCAL_RANK", "1"},
                           {"LOCAL_WORLD_SIZE", "4"},
                           {"MASTER_ADDR", "node1"},
                           {"MASTER_PORT", "4000"},
                           {"TORCHELASTIC_RUN_ID", "night"}});
  ASSERT_TRUE(w);
  EXPECT_EQ(w->run, "night");
  EXPECT_EQ(w->rank, 5);
  EXPECT_EQ(w->size, 8);
  EXPECT_EQ(w->local_rank, 1);
  EXPECT_EQ(w->local_size, 4);
  EXPECT_EQ(w->address, "node1");
  EXPECT_EQ(w->port, 4000);
}

TEST(World, RanksOfOneMachineMeetOnItsLoopback) {
  std::map<std::string, std::string> variables = {
      {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "2"}, {"MASTER_ADDR", "node1.example"}};
  EXPECT_EQ(world_of(variables)->address, "127.0.0.1");
  variables["LOCAL_WORLD_SIZE"] = "1";
  EXPECT_EQ(world_of(variables)->address, "node1.example");
  variables["MASTER_ADDR"] = "localhost";
  EXPECT_EQ(world_of(variables)->address, "127.0.0.1");
}

TEST(World, TheSecretOfTheRun) {
  std::map<std::string, std::string> variables = {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}};
  EXPECT_EQ(world_of(variables)->secret, "");
  variables["LATHE_RUN_SECRET"] = std::string(40, 'x');
  EXPECT_EQ(world_of(variables)->secret, std::string(40, 'x'));
  variables["LATHE_RUN_SECRET"] = "short";
  EXPECT_THROW(world_of(variables), Error);
}

TEST(World, ThePortBesideTorchrunsOwnStore) {
  const auto w = world_of({{"RANK", "0"},
                           {"WORLD_SIZE", "2"},
                           {"MASTER_ADDR", "localhost"},
                           {"MASTER_PORT", "29500"},
                           {"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  EXPECT_EQ(w->port, 29501);
}

TEST(World, OpenMpiOnOneMachineNeedsNoAddress) {
  std::map<std::string, std::string> variables = {{"OMPI_COMM_WORLD_RANK", "1"},
                                                  {"OMPI_COMM_WORLD_SIZE", "2"},
                                                  {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  EXPECT_EQ(world_of(variables)->run, "");
  variables["PMIX_NAMESPACE"] = "1517158401";
  EXPECT_EQ(world_of(variables)->run, "1517158401");
  EXPECT_EQ(world_of(variables)->address, "127.0.0.1");
  EXPECT_EQ(world_of(variables)->local_size, 2);
  variables["OMPI_COMM_WORLD_LOCAL_SIZE"] = "1";
  EXPECT_THROW(world_of(variables), Error);
}

TEST(World, SlurmsFirstNodeKeepsTheStore) {
  const auto w = world_of({{"SLURM_PROCID", "3"},
                           {"SLURM_STEP_NUM_TASKS", "4"},
                           {"SLURM_LOCALID", "1"},
                           {"SLURM_STEP_NUM_NODES", "2"},
                           {"SLURM_STEP_NODELIST", "gpu[07-08]"},
                           {"SLURM_JOB_ID", "123456"},
                           {"SLURM_STEP_ID", "0"}});
  ASSERT_TRUE(w);
  EXPECT_EQ(w->run, "123456.0");
  EXPECT_EQ(w->address, "gpu07");
  EXPECT_EQ(w->port, 15000 + 3456);
  EXPECT_EQ(w->local_rank, 1);
  EXPECT_EQ(w->local_size, 1);  // no variable says it
}

/// srun … & srun … & wait: they may share a node.
TEST(World, StepsOfOneSlurmJobHavePortsOfTheirOwn) {
  const auto port_of = [](const char* job, const char* step) {
    return world_of({{"SLURM_PROCID", "0"},
                     {"SLURM_STEP_NUM_TASKS", "2"},
                     {"SLURM_STEP_NUM_NODES", "1"},
                     {"SLURM_JOB_ID", job},
                     {"SLURM_STEP_ID", step}})
        ->port;
  };
  EXPECT_EQ(port_of("123456", "0"), 15000 + 3456);
  EXPECT_NE(port_of("123456", "1"), port_of("123456", "0"));
  EXPECT_NE(port_of("123456", "1"), port_of("123457", "0"));  // the next job's
  const int interactive = port_of("123456", "4294967290");
  EXPECT_GE(interactive, 15000);
  EXPECT_LT(interactive, 25000);
}

TEST(World, WithoutAJobSlurmsRunHasNoName) {
  EXPECT_EQ(world_of({{"SLURM_PROCID", "0"},
                      {"SLURM_STEP_NUM_TASKS", "2"},
                      {"SLURM_STEP_NUM_NODES", "1"},
                      {"SLURM_STEP_ID", "0"}})
                ->run,
            "");
}

TEST(World, ABatchScriptOfSlurmIsOneProcess) {
  EXPECT_FALSE(world_of({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}));
}

TEST(World, BrokenValuesAreNamed) {
  EXPECT_THROW(world_of({{"RANK", "2"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}}), Error);
  try {
    world_of({{"RANK", "x"}, {"WORLD_SIZE", "2"}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), "RANK: found x, expected a whole number of at least 0");
  }
}

TEST(World, APortIsOneOfTcps) {
  const auto with_port = [](const char* port, const char* held) {
    return world_of({{"RANK", "0"},
                     {"WORLD_SIZE", "2"},
                     {"MASTER_ADDR", "a"},
                     {"MASTER_PORT", port},
                     {"TORCHELASTIC_USE_AGENT_STORE", held}});
  };
  EXPECT_EQ(with_port("1", "")->port, 1);
  EXPECT_EQ(with_port("65535", "")->port, 65535);
  EXPECT_EQ(with_port("65534", "True")->port, 65535);
  const std::vector<std::array<const char*, 3>> wrong = {
      {"0", "", "MASTER_PORT: found 0, expected 1 to 65535"},
      {"65536", "", "MASTER_PORT: found 65536, expected 1 to 65535"},
      {"65535", "True", "MASTER_PORT: found 65535, expected 1 to 65534"}};
  for (const auto& [port, held, message] : wrong) {
    try {
      with_port(port, held);
      ADD_FAILURE() << port;
    } catch (const Error& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with(message)) << error.what();
    }
  }
}

TEST(World, FirstNodeOfSlurmsLists) {
  EXPECT_EQ(first_node("node1"), "node1");
  EXPECT_EQ(first_node("a,b"), "a");
  EXPECT_EQ(first_node("gpu[03-05,9],login"), "gpu03");
  EXPECT_EQ(first_node("n[7]"), "n7");
}

}  // namespace
}  // namespace lathe::group
