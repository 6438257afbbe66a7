#include "device/cgroups.h"

#include <algorithm>
#include <fstream>
#include <optional>

#include "base/text.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

bool lists(const std::string& words, const std::string& word) {
  const std::vector<std::string> all = split(words, ',');
  return std::find(all.begin(), all.end(), word) != all.end();
}

// A controller's mount: where it is, and which cgroup is its top (not "/" inside a container).
struct CgroupMount {
  fs::path point;
  std::string top;
};

std::optional<CgroupMount> find_mount(const std::string& controller, CgroupVersion version,
                                      const fs::path& root) {
  WithoutLocale<std::ifstream> in(root / "proc/self/mountinfo");
  for (std::string line; std::getline(in, line);) {
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const std::vector<std::string> head = split(line.substr(0, dash), ' ');
    const std::vector<std::string> tail = split(line.substr(dash + 3), ' ');
    if (head.size() < 5 || tail.size() < 3) continue;
    const bool found = version == CgroupVersion::kTwo ? tail[0] == "cgroup2"
                                                      : tail[0] == "cgroup" && lists(tail[2], controller);
    if (found) return CgroupMount{root / fs::path(head[4]).relative_path(), head[3]};
  }
  return std::nullopt;
}

// The path of this process's cgroup: "4:memory:/a/b" in version 1, "0::/a/b" in version 2.
std::optional<std::string> own_path(const std::string& controller, CgroupVersion version,
                                    const fs::path& root) {
  WithoutLocale<std::ifstream> in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool found = version == CgroupVersion::kTwo ? controllers.empty() : lists(controllers, controller);
    if (found) return line.substr(second + 1);
  }
  return std::nullopt;
}

// A container may show a path that its own mount does not have; then only the top is known.
bool is_below(const fs::path& point, const fs::path& relative) {
  std::error_code error;
  return std::find(relative.begin(), relative.end(), "..") == relative.end() &&
         fs::exists(point / relative, error);
}

}  // namespace

std::vector<Cgroup> own_cgroups(const std::string& controller, CgroupVersion version, const fs::path& root) {
  const auto mount = find_mount(controller, version, root);
  auto path = own_path(controller, version, root);
  if (!mount || !path) return {};
  if (mount->top != "/" && path->starts_with(mount->top)) path->erase(0, mount->top.size());
  fs::path relative = fs::path(*path).relative_path();
  if (!is_below(mount->point, relative)) relative.clear();
  std::vector<Cgroup> groups;
  for (;; relative = relative.parent_path()) {
    groups.push_back({"/" + relative.string(), mount->point / relative});
    if (relative.empty()) return groups;
  }
}

}  // namespace autotrain
