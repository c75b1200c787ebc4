/* Put before the C library by a test: while the file that FAILING_SYNC names is there, no sync of a database succeeds, as on
 * a disk that has lost what it was given. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fails(int file) {
  const char *gate = getenv("FAILING_SYNC");
  char link[64], path[4096];
  if (gate == NULL || access(gate, F_OK) != 0) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return strstr(path, "taskgate.db") != NULL;
}

static int sync_by(const char *name, int file) {
  if (fails(file)) {
    errno = EIO;
    return -1;
  }
  return ((int (*)(int))dlsym(RTLD_NEXT, name))(file);
}

int fsync(int file) { return sync_by("fsync", file); }

int fdatasync(int file) { return sync_by("fdatasync", file); }
