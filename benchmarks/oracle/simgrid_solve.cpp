// Flows over SimGrid's own fat tree: prints routes, capacities and completions, and what they cost in CPU time.
// Usage: simgrid_solve LEVELS DOWN UP BANDWIDTH_BYTES_PER_S SIZE_BYTES MODE [--cfg=...] < "SRC DST" lines
//   DOWN and UP as "16,32"; MODE: "solve" stops after the first rates, "finish" goes on to the last completion.
// Every link has latency 0: CM02 weighs shares by round-trip time, and pure max-min has no such weights.
#include <ctime>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>
#include <simgrid/s4u.hpp>

namespace sg4 = simgrid::s4u;

static double cpu_s()
{
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}

static std::vector<unsigned int> numbers(const std::string& text)
{
  std::vector<unsigned int> found;
  std::stringstream in(text);
  for (std::string part; std::getline(in, part, ',');)
    found.push_back(std::stoul(part));
  return found;
}

static std::vector<std::pair<unsigned, unsigned>> flows;
static std::vector<sg4::Host*> hosts;
static std::vector<double> finish;

static void all_flows(double size, bool to_the_end)
{
  std::vector<sg4::CommPtr> comms;
  comms.reserve(flows.size());
  double begin = cpu_s();
  for (auto const& [src, dst] : flows)
    comms.push_back(sg4::Comm::sendto_async(hosts[src], hosts[dst], static_cast<uint64_t>(size)));
  double started = cpu_s();
  sg4::this_actor::sleep_for(1e-6); // one round of the engine: rates are found once
  double solved = cpu_s();
  printf("cpu_start_s %.9f\ncpu_solve_s %.9f\n", started - begin, solved - started);
  if (to_the_end) {
    for (auto const& comm : comms)
      comm->wait();
    printf("cpu_finish_s %.9f\n", cpu_s() - started);
    for (auto const& comm : comms)
      finish.push_back(comm->get_finish_time());
    return;
  }
  fflush(stdout);
  _Exit(0); // what is left to simulate is not asked for
}

int main(int argc, char** argv)
{
  sg4::Engine engine(&argc, argv);
  if (argc != 7) {
    fprintf(stderr, "usage: %s LEVELS DOWN UP BANDWIDTH SIZE solve|finish|routes\n", argv[0]);
    return 2;
  }
  const unsigned levels   = std::stoul(argv[1]);
  const auto down         = numbers(argv[2]);
  const auto up           = numbers(argv[3]);
  const double bandwidth  = std::stod(argv[4]);
  const double size       = std::stod(argv[5]);
  const std::string mode  = argv[6];
  for (unsigned src, dst; std::cin >> src >> dst;)
    flows.emplace_back(src, dst);

  double begin = cpu_s();
  auto host    = [&](sg4::NetZone* zone, const std::vector<unsigned long>&, unsigned long id) {
    auto* made = zone->create_host("n" + std::to_string(id), 1e9)->seal();
    return std::make_pair(made->get_netpoint(), static_cast<simgrid::kernel::routing::NetPoint*>(nullptr));
  };
  std::vector<unsigned int> cables(levels, 1);
  auto* zone = sg4::create_fatTree_zone("tree", nullptr, {levels, down, up, cables}, sg4::ClusterCallbacks(host),
                                        bandwidth, 0.0, sg4::Link::SharingPolicy::SPLITDUPLEX);
  zone->seal();
  printf("cpu_build_s %.9f\n", cpu_s() - begin);
  unsigned long count = 1;
  for (unsigned d : down)
    count *= d;
  for (unsigned long id = 0; id < count; id++)
    hosts.push_back(sg4::Host::by_name("n" + std::to_string(id)));

  if (mode == "routes") {
    std::unordered_map<sg4::Link*, int> ids;
    for (auto const& [src, dst] : flows) {
      std::vector<sg4::Link*> links;
      double latency = 0;
      hosts[src]->route_to(hosts[dst], links, &latency);
      printf("route");
      for (auto* link : links)
        printf(" %d", ids.try_emplace(link, static_cast<int>(ids.size())).first->second);
      printf("\n");
    }
    return 0;
  }
  sg4::Actor::create("driver", hosts[0], all_flows, size, mode == "finish");
  engine.run();
  for (double end : finish)
    printf("end %.17g\n", end);
  return 0;
}
