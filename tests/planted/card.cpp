#include "tests/planted/card.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "device/cuda/cubin_image.hpp"
#include "device/cuda/cuda_machine.hpp"
#include "fixtures/problem/errors.hpp"
#include "tests/planted/scenario.hpp"

namespace moe::device {
namespace {

using Json = nlohmann::ordered_json;

/// The built-in kernels, the planted ones in their places, with the fault's own machine code where it has
/// one.
std::vector<CubinImage> images_of(Fault fault) {
  int place = -1;
  for (int i = 0; i < kWgmmaFaultCount; ++i)
    if (kWgmmaFaults[i] == fault) place = i;
  std::vector<CubinImage> images(cubin_images().begin(), cubin_images().end());
  const auto take = [&](const PlantedImage& image) {
    for (CubinImage& own : images)
      if (own.variant == image.variant) own = {image.variant, "moe_kernel", image.bytes};
  };
  for (const PlantedImage& image : planted_images())
    if (image.wgmma_fault == -1) take(image);
  for (const PlantedImage& image : planted_images())
    if (place >= 0 && image.wgmma_fault == place) take(image);
  return images;
}

void say(const Json& line) {
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

/// False when the card can do no more in this process.
bool launch_fault(const FaultInfo& info, int launches, std::uint32_t delays) {
  say({{"begin", info.id}});
  const Scenario scenario(info);
  Json line{{"end", info.id}, {"name", info.name}, {"launches", 0}, {"wrong", 0}, {"said", Json::array()}};
  std::set<std::string> said;
  int done = 0, wrong = 0;
  bool alive = true;
  try {
    const std::vector<CubinImage> images = images_of(info.fault);
    const auto machine = std::make_shared<CudaMachine>(0, images);
    const bool graph = info.fault == Fault::graph_misses_first_stage;
    const auto emulated = emulated_machine();
    const bool small =
        info.fault != Fault::row_offset_in_32_bits;  // else the card's own right run is what is due
    const int whole = machine->sms();
    machine->plant(int(Fault::none), 0);
    const Seen right =
        scenario.run(small ? std::static_pointer_cast<Machine>(emulated) : machine, Fault::none);
    for (; done < (small ? launches : 3); ++done) {
      machine->plant(int(info.fault), delays == 0 ? 0 : delays + std::uint32_t(done));
      machine->limit_sms(done % 2 == 0 ? emulated->sms() : whole);  // few: rings wrap, CTAs meet
      const Seen seen = scenario.run(machine, info.fault, graph);
      wrong += seen.outputs != right.outputs;
      said.insert(seen.sentences.begin(), seen.sentences.end());
    }
  } catch (const MachineFailure& error) {
    said.insert(error.what());
    alive = false;
  }
  line["launches"] = done;
  line["wrong"] = wrong;
  for (const std::string& s : said) line["said"].push_back(s);
  say(line);
  return alive;
}

}  // namespace

int launch_on_card(std::span<const Fault> faults, int launches, std::uint32_t delays) {
  for (Fault fault : faults)
    if (!launch_fault(kFaults[int(fault)], launches, delays)) return 3;
  return 0;
}

}  // namespace moe::device
