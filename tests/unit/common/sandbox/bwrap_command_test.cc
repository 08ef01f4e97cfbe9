#include "common/sandbox/bwrap_command.h"

#include <algorithm>
#include <string>
#include <vector>

#include <absl/strings/match.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

#include "common/sandbox/cgroup.h"
#include "common/sandbox/spec.h"
#include "tests/testing/catch.h"

namespace pike::sandbox {
namespace {

RootLayout Layout(bool is_root) {
  return {.is_root = is_root,
          .bwrap = "/usr/bin/bwrap",
          .setpriv = "/usr/bin/setpriv",
          .prlimit = "/usr/bin/prlimit",
          .links = {{"/bin", "usr/bin"}},
          .folders = {"/lib64"}};
}

SandboxSpec Spec() {
  return {.name = "import", .argv = {"/usr/bin/python3", "main.py"}};
}

// The options on one line.
std::string Options(const SandboxSpec& spec, bool is_root) {
  const BwrapCommand command = MakeBwrapCommand(spec, Layout(is_root), 200005);
  return absl::StrJoin(absl::StrSplit(command.arguments, '\0'), " ");
}

size_t Position(const std::string& text, const std::string& part) {
  INFO(text << " lacks " << part);
  const size_t position = text.find(part);
  CHECK(position != std::string::npos);
  return position;
}

std::vector<std::string> Folders(const std::vector<CgroupParent>& parents) {
  std::vector<std::string> folders;
  for (const CgroupParent& parent : parents)
    folders.push_back((parent.is_v2 ? "v2 " : "v1 ") + parent.folder);
  return folders;
}

}  // namespace

TEST_CASE("MakeBwrapCommand: as root a real uid and no user namespace, else the opposite") {
  const std::string as_root = Options(Spec(), true);
  const std::string as_user = Options(Spec(), false);
  CHECK_FALSE(absl::StrContains(as_root, "--unshare-user"));
  CHECK(absl::StrContains(as_user, "--unshare-user --disable-userns"));
  const auto last = [](bool is_root) {
    return absl::StrJoin(MakeBwrapCommand(Spec(), Layout(is_root), 200005).argv, " ");
  };
  CHECK(absl::StrContains(last(true), "/usr/bin/setpriv --reuid=200005 --regid=200005"));
  CHECK(absl::EndsWith(last(true), "--bounding-set=-all -- /usr/bin/python3 main.py"));
  CHECK(absl::EndsWith(last(false),
                       "/usr/bin/prlimit --nproc=1024:1024 -- /usr/bin/python3 main.py"));
}

TEST_CASE(
    "MakeBwrapCommand: every namespace, a clear environment, and a read-only root at the end") {
  for (const bool is_root : {false, true}) {
    const std::string options = Options(Spec(), is_root);
    for (const char* part :
         {"--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--die-with-parent",
          "--new-session", "--clearenv", "--proc /proc", "--dev /dev", "--symlink usr/bin /bin",
          "--ro-bind /lib64 /lib64", "--remount-ro /dev"})
      Position(options, part);
    CHECK(Position(options, "--remount-ro / ") > Position(options, "--tmpfs /dev/shm"));
  }
}

TEST_CASE("MakeBwrapCommand: folders above a bind are made readable, before it, once") {
  SandboxSpec spec = Spec();
  spec.read_only_binds = {{.host_path = "/opt/python", .inside_path = "/opt/x/python"},
                          {.host_path = "/opt/other", .inside_path = "/opt/x/other"},
                          {.host_path = "/usr/lib/python3", .inside_path = "/usr/lib/python3"}};
  const std::string options = Options(spec, true);
  CHECK(Position(options,
                 "--perms 0755 --dir /opt --perms 0755 --dir /opt/x --ro-bind "
                 "/opt/python /opt/x/python --ro-bind /opt/other /opt/x/other") > 0);
  CHECK_FALSE(absl::StrContains(options, "/usr/lib/python3"));
}

TEST_CASE("MakeBwrapCommand: files come by descriptors, after the folders they lie in") {
  SandboxSpec spec = Spec();
  spec.tmpfs = {{.inside_path = "/work", .size_bytes_max = 1000, .mode = 0777}};
  spec.files = {{.inside_path = "/work/a.py", .bytes = "print(1)"}};
  const BwrapCommand command = MakeBwrapCommand(spec, Layout(true), 200005);
  REQUIRE(command.files.size() == 3);
  CHECK(absl::StrContains(command.files[0], "pike:x:200005:200005:"));
  CHECK(command.files[2] == "print(1)");
  const std::string options = Options(spec, true);
  CHECK(Position(options, "--perms 0777 --size 1000 --tmpfs /work") <
        Position(options, "--perms 0644 --file 104 /work/a.py"));
}

TEST_CASE("ValidateSpec: lists all that is wrong") {
  CHECK(ValidateSpec(Spec()).ok());
  SandboxSpec spec = Spec();
  spec.name = "No Good";
  spec.argv.clear();
  spec.environment = {{"A=B", "c"}};
  spec.read_only_binds = {{.host_path = "/x/../y", .inside_path = "y"}};
  spec.fds = {{.host_fd = -1, .inside_fd = 9}, {.host_fd = 1, .inside_fd = 9}};
  spec.devices = {"/etc/passwd"};
  spec.limits.memory_bytes_max = 1;
  spec.nice = -1;
  const absl::Status status = ValidateSpec(spec);
  CHECK(absl::IsInvalidArgument(status));
  for (const char* part :
       {"bad name", "argv is empty", "A=B", "\"/x/../y\"", "\"y\"", "not open", "number 9 is not",
        "number 9 given twice", "/etc/passwd is not in /dev", "16 MiB", "nice"}) {
    INFO(part << " in " << status.message());
    CHECK(absl::StrContains(status.message(), part));
  }
}

TEST_CASE("CgroupParents: version 2 from our own cgroup upwards") {
  const char* mounts = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\nproc /proc proc rw 0 0\n";
  CHECK(Folders(CgroupParents("memory", mounts, "0::/user.slice/app.scope\n")) ==
        std::vector<std::string>{"v2 /sys/fs/cgroup/user.slice/app.scope",
                                 "v2 /sys/fs/cgroup/user.slice", "v2 /sys/fs/cgroup"});
  CHECK(Folders(CgroupParents("memory", mounts, "0::/\n")) ==
        std::vector<std::string>{"v2 /sys/fs/cgroup"});
}

TEST_CASE("CgroupParents: in a hybrid layout, version 1 where the controller is") {
  const char* mounts =
      "cgroup /sys/fs/cgroup/cpu,memory cgroup rw,cpu,memory 0 0\n"
      "cgroup /sys/fs/cgroup/pids cgroup rw,pids 0 0\n"
      "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
  const char* own = "8:pids:/\n4:cpu,memory:/a/b\n0::/\n";
  CHECK(Folders(CgroupParents("memory", mounts, own)) ==
        std::vector<std::string>{"v2 /sys/fs/cgroup/unified", "v1 /sys/fs/cgroup/cpu,memory/a/b",
                                 "v1 /sys/fs/cgroup/cpu,memory"});
  CHECK(Folders(CgroupParents("pids", mounts, own)) ==
        std::vector<std::string>{"v2 /sys/fs/cgroup/unified", "v1 /sys/fs/cgroup/pids"});
}

}  // namespace pike::sandbox
