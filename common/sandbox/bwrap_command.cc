#include "common/sandbox/bwrap_command.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <set>

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/string_view.h>

namespace pike::sandbox {
namespace {

// The uid that processes have inside where a user namespace maps ours.
constexpr uid_t kMappedUid = 1000;

constexpr char kOuterGate[] = "read -r go || exit 125; exec \"$@\"";
constexpr char kInnerGate[] =
    "echo ok >&9; exec 9>&-; read -r go || exit 125; exec \"$@\" </dev/null";

class ArgumentWriter {
 public:
  explicit ArgumentWriter(BwrapCommand* command) : command_(command) {}

  template <typename... Parts>
  void Add(const Parts&... parts) {
    (absl::StrAppend(&command_->arguments, parts, absl::string_view("\0", 1)), ...);
  }

  void AddFolder(const std::string& path, unsigned mode = 0755) {
    if (folders_.insert(path).second)
      Add("--perms", absl::StrFormat("%04o", mode), "--dir", path);
  }

  // Folders that bubblewrap makes by itself for a mount are mode 0700.
  void AddParents(const std::string& path) {
    for (size_t slash = path.find('/', 1); slash != std::string::npos;
         slash = path.find('/', slash + 1)) {
      const std::string parent = path.substr(0, slash);
      if (parent != "/usr" && !absl::StartsWith(parent, "/usr/"))
        AddFolder(parent);
    }
  }

  void AddTmpfs(const std::string& path, int64_t size_bytes_max, unsigned mode) {
    AddParents(path);
    Add("--perms", absl::StrFormat("%04o", mode), "--size", size_bytes_max, "--tmpfs", path);
    folders_.insert(path);
  }

  void AddBind(const char* option, const Bind& bind) {
    AddParents(bind.inside_path);
    Add(option, bind.host_path, bind.inside_path);
    folders_.insert(bind.inside_path);
  }

  void AddFile(const InsideFile& file, const char* option) {
    AddParents(file.inside_path);
    Add("--perms", absl::StrFormat("%04o", file.mode), option,
        kFirstFileFd + static_cast<int>(command_->files.size()), file.inside_path);
    command_->files.push_back(file.bytes);
  }

  void AddSeccomp(const std::string& filter) {
    Add("--seccomp", kFirstFileFd + static_cast<int>(command_->files.size()));
    command_->files.push_back(filter);
  }

 private:
  BwrapCommand* const command_;
  std::set<std::string> folders_ = {"/usr", "/proc", "/dev", "/tmp", "/dev/shm"};
};

void AddNamespaces(const RootLayout& layout, ArgumentWriter* writer) {
  writer->Add("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts",
              "--unshare-cgroup-try", "--hostname", "pike", "--new-session", "--die-with-parent");
  if (!layout.is_root) {
    writer->Add("--unshare-user", "--disable-userns", "--uid", kMappedUid, "--gid", kMappedUid);
  }
}

void AddSystem(const RootLayout& layout, uid_t inside_uid, ArgumentWriter* writer) {
  writer->Add("--ro-bind", "/usr", "/usr");
  for (const auto& [path, target] : layout.links)
    writer->Add("--symlink", target, path);
  for (const std::string& path : layout.folders)
    writer->Add("--ro-bind", path, path);
  writer->AddFolder("/etc");
  for (const char* path :
       {"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives"})
    writer->Add("--ro-bind-try", path, path);
  writer->AddFile({.inside_path = "/etc/passwd",
                   .bytes = absl::StrCat("root:x:0:0:root:/:/usr/sbin/nologin\npike:x:", inside_uid,
                                         ":", inside_uid, ":pike:/tmp:/bin/sh\n"),
                   .mode = 0644},
                  "--ro-bind-data");
  writer->AddFile({.inside_path = "/etc/group",
                   .bytes = absl::StrCat("root:x:0:\npike:x:", inside_uid, ":\n"),
                   .mode = 0644},
                  "--ro-bind-data");
  // PyTorch picks its vector kernels, and everyone counts cores, by what stands here.
  for (const std::string path : {"/sys/devices/system/cpu", "/sys/devices/system/node"}) {
    writer->AddParents(path);
    writer->Add("--ro-bind-try", path, path);
  }
  writer->Add("--proc", "/proc", "--dev", "/dev");
}

// A read-only bind that /usr brings along anyway.
bool IsInUsr(const Bind& bind) {
  return bind.host_path == bind.inside_path && absl::StartsWith(bind.host_path, "/usr/");
}

void AddContent(const SandboxSpec& spec, ArgumentWriter* writer) {
  writer->AddTmpfs("/tmp", spec.tmp_bytes_max, 01777);
  writer->AddTmpfs("/dev/shm", spec.dev_shm_bytes_max, 01777);
  for (const TmpfsMount& mount : spec.tmpfs)
    writer->AddTmpfs(mount.inside_path, mount.size_bytes_max, mount.mode);
  for (const Bind& bind : spec.read_only_binds) {
    if (!IsInUsr(bind))
      writer->AddBind("--ro-bind", bind);
  }
  for (const Bind& bind : spec.writable_binds)
    writer->AddBind("--bind", bind);
  for (const std::string& device : spec.devices)
    writer->AddBind("--dev-bind", {.host_path = device, .inside_path = device});
  for (const InsideFile& file : spec.files)
    writer->AddFile(file, "--file");
  // The file systems under all this are in memory and without a size: not to be written to.
  writer->Add("--remount-ro", "/dev", "--remount-ro", "/");
}

void AddEnvironment(const SandboxSpec& spec, ArgumentWriter* writer) {
  std::map<std::string, std::string> environment = {
      {"PATH", "/usr/bin:/bin"}, {"HOME", "/tmp"}, {"TMPDIR", "/tmp"}};
  for (const auto& [name, value] : spec.environment)
    environment[name] = value;
  writer->Add("--clearenv");
  for (const auto& [name, value] : environment)
    writer->Add("--setenv", name, value);
  writer->Add("--chdir", spec.working_folder);
}

// What gives up the last rights, then runs the program.
std::vector<std::string> Demotion(const SandboxSpec& spec, const RootLayout& layout, uid_t uid) {
  if (layout.is_root) {
    return {layout.setpriv,
            absl::StrCat("--reuid=", uid),
            absl::StrCat("--regid=", uid),
            "--clear-groups",
            "--no-new-privs",
            "--inh-caps=-all",
            "--ambient-caps=-all",
            "--bounding-set=-all",
            "--"};
  }
  // Set inside: within a user namespace it counts the sandbox's processes, before it all of ours.
  const int64_t processes = spec.limits.processes_max;
  return {layout.prlimit, absl::StrCat("--nproc=", processes, ":", processes), "--"};
}

}  // namespace

RootLayout ReadRootLayout() {
  RootLayout layout;
  layout.is_root = geteuid() == 0;
  for (const char* path : {"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}) {
    struct stat facts {};
    if (lstat(path, &facts) != 0)
      continue;
    if (S_ISDIR(facts.st_mode)) {
      layout.folders.emplace_back(path);
      continue;
    }
    char target[PATH_MAX];
    const ssize_t length = readlink(path, target, sizeof target);
    if (length > 0)
      layout.links.emplace_back(path, std::string(target, static_cast<size_t>(length)));
  }
  return layout;
}

BwrapCommand MakeBwrapCommand(const SandboxSpec& spec, const RootLayout& layout, uid_t uid) {
  BwrapCommand command;
  ArgumentWriter writer(&command);
  AddNamespaces(layout, &writer);
  AddSystem(layout, layout.is_root ? uid : kMappedUid, &writer);
  AddContent(spec, &writer);
  AddEnvironment(spec, &writer);
  if (!layout.seccomp_filter.empty())
    writer.AddSeccomp(layout.seccomp_filter);
  writer.Add("--info-fd", kInfoFd);

  command.argv = {"/bin/sh",
                  "-c",
                  kOuterGate,
                  "pike-gate",
                  layout.bwrap,
                  "--args",
                  absl::StrCat(kArgumentsFd),
                  "--",
                  "/bin/sh",
                  "-c",
                  kInnerGate,
                  "pike-gate"};
  for (const std::string& argument : Demotion(spec, layout, uid))
    command.argv.push_back(argument);
  for (const std::string& argument : spec.argv)
    command.argv.push_back(argument);
  return command;
}

}  // namespace pike::sandbox
