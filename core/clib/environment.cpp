#include "clib/environment.h"

#include <Python.h>  // only for the version: nothing of it is linked
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

extern char** environ;

namespace openbnns {
namespace clib {
namespace {

#define OPENBNNS_TEXT(x) #x
#define OPENBNNS_VERSION_TEXT(major, minor) OPENBNNS_TEXT(major) "." OPENBNNS_TEXT(minor)
constexpr const char* kVersion = OPENBNNS_VERSION_TEXT(PY_MAJOR_VERSION, PY_MINOR_VERSION);
#ifdef Py_GIL_DISABLED
constexpr const char* kFlags = "t";
#else
constexpr const char* kFlags = "";
#endif
#if defined(__x86_64__)
constexpr const char* kMachine = "x86_64-linux-gnu";
#elif defined(__aarch64__)
constexpr const char* kMachine = "aarch64-linux-gnu";
#else
constexpr const char* kMachine = ".";
#endif

// False if the path is too long, which makes it no path.
bool join(char (&path)[kPath], const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(path, kPath, format, arguments);
  va_end(arguments);
  return length >= 0 && static_cast<size_t>(length) < kPath;
}

bool is_file(const char* path) {
  struct stat s;
  return stat(path, &s) == 0 && S_ISREG(s.st_mode);
}

bool is_program(const char* path) { return is_file(path) && access(path, X_OK) == 0; }

// Removes the last `count` parts.
void go_up(char* path, int count) {
  for (int i = 0; i < count; i++)
    if (char* slash = strrchr(path, '/')) *slash = 0;
}

bool program_in_path(const char* name, char (&found)[kPath]) {
  const char* path = getenv("PATH");
  for (const char* part = path ? path : "/usr/local/bin:/usr/bin:/bin"; *part;) {
    const size_t length = strcspn(part, ":");
    if (length && join(found, "%.*s/%s", static_cast<int>(length), part, name) && is_program(found)) return true;
    part += length + (part[length] == ':');
  }
  return false;
}

// The interpreter of a prefix; false if it has none.
bool program_of(const char* prefix, char (&found)[kPath]) {
  return (join(found, "%s/bin/python%s", prefix, kVersion) && is_program(found)) ||
         (join(found, "%s/bin/python3", prefix) && is_program(found));
}

bool find_executable(Environment& e, char* reason, size_t size) {
  if (const char* given = getenv("OPENBNNS_PYTHON"); given && *given) {
    if (join(e.executable, "%s", given) && is_program(given)) return true;
    snprintf(reason, size, "OPENBNNS_PYTHON is %s, which cannot be run. Set it to a Python interpreter.", given);
    return false;
  }
  if (*e.site) {
    char prefix[kPath], settings[kPath];
    join(prefix, "%s", e.site);
    go_up(prefix, 3);  // PREFIX/lib/pythonX.Y/site-packages
    if (program_of(prefix, e.executable)) return true;
    if (join(settings, "%s/pyvenv.cfg", prefix) && is_file(settings)) {
      snprintf(reason, size,
               "the environment %s has no Python any more (bin/python3 leads nowhere). Make it anew, or set "
               "OPENBNNS_PYTHON to an interpreter of version %s.",
               prefix, kVersion);
      return false;
    }
  }
  char name[64];
  snprintf(name, sizeof name, "python%s", kVersion);  // packages of a user, or a source tree
  if (program_in_path(name, e.executable)) return true;
  snprintf(reason, size, "no Python %s was found. Set OPENBNNS_PYTHON to an interpreter that has OpenBNNS installed.",
           kVersion);
  return false;
}

// The folder of the interpreter that a virtual environment was made from: `home = ...` in pyvenv.cfg.
bool home_of(const char* executable, char (&home)[kPath]) {
  char settings[kPath], line[kPath];
  join(settings, "%s", executable);
  go_up(settings, 2);
  if (strlen(settings) + 12 > kPath) return false;
  strcat(settings, "/pyvenv.cfg");
  FILE* file = fopen(settings, "re");
  if (!file) return false;
  bool found = false;
  while (!found && fgets(line, sizeof line, file)) {
    char* value = strchr(line, '=');
    if (!value) continue;
    *value++ = 0;
    line[strcspn(line, " \t")] = 0;
    value += strspn(value, " \t");
    value[strcspn(value, "\r\n")] = 0;
    found = strcmp(line, "home") == 0 && join(home, "%s", value);
  }
  fclose(file);
  return found;
}

// Where installations keep libpython, without running anything.
bool guess_libpython(Environment& e) {
  char prefix[kPath];
  if (!home_of(e.executable, prefix)) {
    if (!realpath(e.executable, prefix)) return false;
    go_up(prefix, 1);
  }
  go_up(prefix, 1);
  for (const char* folder : {"lib", "lib64", "lib/"}) {
    const char* machine = folder[3] == '/' ? kMachine : "";
    if (join(e.libpython, "%s/%s%s/libpython%s%s.so.1.0", prefix, folder, machine, kVersion, kFlags) &&
        is_file(e.libpython))
      return true;
  }
  return false;
}

// What the interpreter says: the path of its library, "static" or another version.
bool ask_libpython(const char* executable, char (&answer)[kPath]) {
  static const char question[] =
      "import sysconfig as s, sys, os; print('%d.%d' % sys.version_info[:2]); "
      "print(os.path.join(s.get_config_var('LIBDIR'), "
      "s.get_config_var('INSTSONAME')) if s.get_config_var('Py_ENABLE_SHARED') else 'static')";
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  const char* arguments[] = {executable, "-I", "-S", "-c", question, nullptr};
  pid_t child;
  const int failed = posix_spawn(&child, executable, &actions, nullptr, const_cast<char**>(arguments), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  size_t length = 0;
  if (!failed) {
    ssize_t count;
    while (length + 1 < kPath && (count = read(ends[0], answer + length, kPath - 1 - length)) > 0)
      length += static_cast<size_t>(count);
    waitpid(child, nullptr, 0);
  }
  close(ends[0]);
  answer[length] = 0;
  return length > 0;
}

bool find_libpython(Environment& e, char* reason, size_t size) {
  if (const char* given = getenv("OPENBNNS_LIBPYTHON"); given && *given) return join(e.libpython, "%s", given);
  if (guess_libpython(e)) return true;
  char answer[kPath];
  if (!ask_libpython(e.executable, answer)) {
    snprintf(reason, size, "%s does not run as a Python interpreter. Set OPENBNNS_PYTHON to one of version %s.",
             e.executable, kVersion);
    return false;
  }
  char* rest = answer + strcspn(answer, "\n");
  if (*rest) *rest++ = 0;
  rest[strcspn(rest, "\n")] = 0;
  if (strcmp(answer, kVersion) != 0) {
    snprintf(reason, size, "%s is Python %s, but this library belongs to OpenBNNS for Python %s. Set OPENBNNS_PYTHON.",
             e.executable, answer, kVersion);
    return false;
  }
  if (!join(e.libpython, "%s", rest) || !is_file(e.libpython)) {
    snprintf(reason, size,
             "%s has no shared libpython, which a C program needs. Install libpython%s, or use a Python built with "
             "--enable-shared, or set OPENBNNS_LIBPYTHON.",
             e.executable, kVersion);
    return false;
  }
  return true;
}

struct Search {
  char found[kPath];
};

int look_for_libpython(dl_phdr_info* info, size_t, void* data) {
  const char* name = info->dlpi_name ? info->dlpi_name : "";
  const char* file = strrchr(name, '/');
  if (strncmp(file ? file + 1 : name, "libpython", 9) != 0) return 0;
  return join(static_cast<Search*>(data)->found, "%s", name) ? 1 : 0;
}

}  // namespace

bool find_in_process(void** library) {
  *library = RTLD_DEFAULT;  // which is null, so it says nothing by itself
  if (dlsym(RTLD_DEFAULT, "Py_IsInitialized")) return true;
  Search search{};
  if (!dl_iterate_phdr(look_for_libpython, &search)) return false;
  // One that was loaded for its owner alone; extension modules need its names, too.
  *library = dlopen(search.found, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
  return *library != nullptr && dlsym(*library, "Py_IsInitialized");
}

void find_site(Environment& e) {
  Dl_info info;
  *e.site = 0;
  if (!dladdr(reinterpret_cast<void*>(&find_site), &info)) return;
  // The file as it was found first: installers may make links to files that are shared by environments. Its folder is
  // resolved, because a way to it with ".." in it, as pkg-config writes, has no parents to count.
  for (bool follow_links : {false, true}) {
    char file[kPath], path[kPath], mark[kPath];
    if (follow_links) {
      if (!realpath(info.dli_fname, file)) return;
    } else if (!join(file, strchr(info.dli_fname, '/') ? "%s" : "./%s", info.dli_fname)) {
      return;
    }
    go_up(file, 1);
    if (!realpath(*file ? file : "/", path)) return;
    go_up(path, 1);  // openbnns/lib/libopenbnns.so
    if (!join(mark, "%s/clib/__init__.py", path) || !is_file(mark)) continue;
    go_up(path, 1);
    join(e.site, "%s", path);
    return;
  }
}

bool find_environment(Environment& environment, char* reason, size_t size) {
  return find_executable(environment, reason, size) && find_libpython(environment, reason, size);
}

}  // namespace clib
}  // namespace openbnns
