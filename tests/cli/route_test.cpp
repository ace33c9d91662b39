// `route` and `tune --aot` of the built program.
#include "tests/cli/program.hpp"

namespace {

using namespace moe::cli;

class CliRoute : public Program {};

// Would catch: a table, JSON and rule that do not tell the same, a measurement claimed without a card, a file
// of times that is taken for one of problems.
TEST_F(CliRoute, RoutesBetweenThePathsOfALayer) {
  const Outcome table = run("route " + kSizes + "--tokens 64,1");
  EXPECT_EQ(table.status, 0) << table.err;
  EXPECT_NE(table.out.find("vLLM's order"), std::string::npos) << table.out;
  EXPECT_NE(table.out.find("def backend(tokens):"), std::string::npos) << table.out;
  const Json route = Json::parse(run("route " + kSizes + "--tokens 64,1 --json -").out).at("route");
  EXPECT_EQ(route.at("points").size(), 2u);
  EXPECT_EQ(route.at("points").at(0).at("tokens"), 1);
  EXPECT_EQ(route.at("policies").at(0).at("regret_mean"), 0.0);
  const Outcome measured = run("route " + kSmall + "--measure");
  EXPECT_TRUE(measured.status == 3 || measured.status == 0) << measured.err;
  refuses("route --against a.csv --measure", "leave one away");
  refuses("route --against a.csv --tokens 1", "from the file");
  refuses("route --against " + write("rows.csv", "kind,model,T,peer,us_median,note\n").string(), "no row");
  refuses("route --tokens 0 " + kSizes, "launches nothing");
}

// Would catch: a deployment called covered that is not, and one outside that ends with 0.
TEST_F(CliRoute, ProvesADeploymentCompiled) {
  refuses("tune --aot " + kSizes, "token counts");
  EXPECT_EQ(run("tune --aot " + kSizes + "--tokens 1:64").status, 0);
  const Outcome outside = run("tune --aot --model qwen3-235b --tp 8 --tokens 16 --json -");
  EXPECT_EQ(outside.status, 1) << outside.err;
  EXPECT_EQ(Json::parse(outside.out).at("aot").at("paths").at(0).at("outside").at("nearest"),
            "--tp 4 --ep 1");
}

}  // namespace
