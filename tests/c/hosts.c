// What hosts do to a library: threads of their own, forks, signals, an exit while calls are in progress, handles that
// are none, allocators. usage: hosts CASE
#include <errno.h>
#include <openbnns/bnns.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kSize = 8 };

#ifdef HOST_PYTHON  // a host with a Python of its own that knows its version and little else
int Py_IsInitialized(void);
const char* Py_GetVersion(void);
int Py_IsInitialized(void) { return 1; }
const char* Py_GetVersion(void) { return HOST_PYTHON " (of this program)"; }
#endif

static float weights[kSize * kSize], bias[kSize], input[kSize] = {1, 2, 3, 4, 5, 6, 7, 8};
static volatile bool stop;

#define REQUIRE(condition)                                                                   \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      const char* text = openbnns_last_error();                                              \
      fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #condition, text ? text : "no error"); \
      exit(1);                                                                               \
    }                                                                                        \
  } while (0)

static BNNSNDArrayDescriptor vector(size_t n, void* data) {
  BNNSNDArrayDescriptor d = {0};
  d.layout = BNNSDataLayoutVector, d.size[0] = n, d.data = data, d.data_type = BNNSDataTypeFloat32;
  return d;
}

static BNNSNDArrayDescriptor matrix(size_t columns, size_t rows, void* data) {
  BNNSNDArrayDescriptor d = vector(columns, data);
  d.layout = BNNSDataLayoutRowMajorMatrix, d.size[1] = rows;
  return d;
}

// A fully connected layer whose weights have this many columns; only kSize is right.
static BNNSFilter make(size_t columns, const BNNSFilterParameters* options) {
  BNNSLayerParametersFullyConnected p = {0};
  p.i_desc = p.o_desc = vector(kSize, NULL);
  p.w_desc = matrix(columns, kSize, weights);
  p.bias = vector(kSize, bias);
  return BNNSFilterCreateLayerFullyConnected(&p, options);
}

static bool right(const float* output) {  // weights and bias count up
  for (int i = 0; i < kSize; i++) {
    float sum = bias[i];
    for (int j = 0; j < kSize; j++) sum += weights[i * kSize + j] * input[j];
    if (sum != output[i]) return false;
  }
  return true;
}

static long resident(void) {
  long pages = 0, kept = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (!file || fscanf(file, "%ld %ld", &pages, &kept) != 2) kept = 0;
  if (file) fclose(file);
  return kept;
}

static void* work(void* number) {
  const size_t me = (size_t)number;
  char own[32];
  snprintf(own, sizeof own, "size (%zu, 8)", kSize + me);
  for (int i = 0; i < 60; i++) {
    float output[kSize] = {0};
    BNNSFilter f = make(kSize, NULL);
    REQUIRE(f);
    for (int k = 0; k < 20; k++) REQUIRE(BNNSFilterApply(f, input, output) == 0 && right(output));
    REQUIRE(openbnns_last_error() == NULL);
    REQUIRE(make(kSize + me, NULL) == NULL);
    REQUIRE(openbnns_last_error() && strstr(openbnns_last_error(), own));  // not that of another thread
    BNNSFilterDestroy(f);
    REQUIRE(strstr(openbnns_last_error(), own));  // cleaning up hides nothing
  }
  return NULL;
}

static void* create_until_stopped(void* unused) {
  while (!stop) {
    BNNSFilter f = make(kSize, NULL);
    REQUIRE(f);
    BNNSFilterDestroy(f);
  }
  return unused;
}

static void* fail_until_stopped(void* unused) {
  while (!stop) REQUIRE(make(kSize + 1, NULL) == NULL && strstr(openbnns_last_error(), "size (9, 8)"));
  return unused;
}

static void* apply_until_stopped(void* filter) {
  float output[kSize];
  while (!stop) REQUIRE(BNNSFilterApply(filter, input, output) == 0 && right(output));
  return NULL;
}

// Until another thread destroys the filter: every call does all of its work, or none.
static void* apply_until_destroyed(void* filter) {
  for (;;) {
    float output[kSize] = {0};
    const int status = BNNSFilterApply(filter, input, output);
    if (status == 0) {
      REQUIRE(right(output));
      continue;
    }
    REQUIRE(strstr(openbnns_last_error(), "the filter has been destroyed"));
    for (int i = 0; i < kSize; i++) REQUIRE(output[i] == 0);
    return NULL;
  }
}

static void* apply_once(void* filter) {
  float output[kSize] = {0};
  REQUIRE(BNNSFilterApply(filter, input, NULL) == -1 && openbnns_last_error());
  REQUIRE(BNNSFilterApply(filter, input, output) == 0 && right(output));
  return NULL;
}

static void threads(void) {  // the first call of all comes from a thread, too
  pthread_t t[8];
  for (size_t i = 0; i < 8; i++) pthread_create(&t[i], NULL, work, (void*)(i + 1));
  for (size_t i = 0; i < 8; i++) pthread_join(t[i], NULL);
}

static pthread_barrier_t together;

static void* keep_own_error(void* number) {
  const size_t me = (size_t)number;
  char own[32];
  snprintf(own, sizeof own, "size (%zu, 8)", kSize + me);
  for (int i = 0; i < 50; i++) {
    float output[kSize];
    REQUIRE(make(kSize + me, NULL) == NULL);
    pthread_barrier_wait(&together);  // all have failed
    const char* text = openbnns_last_error();
    REQUIRE(text && strstr(text, own));
    pthread_barrier_wait(&together);  // all have asked
    REQUIRE(strstr(text, own));       // nobody else's question took the text away
    BNNSFilter f = make(kSize, NULL);
    if (me % 2) REQUIRE(f && BNNSFilterApply(f, input, output) == 0);
    if (me % 2 == 0) REQUIRE(f && BNNSFilterApply(f, input, NULL) == -1);
    pthread_barrier_wait(&together);
    text = openbnns_last_error();
    REQUIRE(me % 2 ? text == NULL : text && strstr(text, "out is NULL") != NULL);
    BNNSFilterDestroy(f);
  }
  return NULL;
}

static void errors(void) {  // of eight threads that fail at the same time
  pthread_t t[8];
  pthread_barrier_init(&together, NULL, 8);
  for (size_t i = 0; i < 8; i++) pthread_create(&t[i], NULL, keep_own_error, (void*)(i + 1));
  for (size_t i = 0; i < 8; i++) pthread_join(t[i], NULL);
  REQUIRE(openbnns_last_error() == NULL);
}

static void many_threads(void) {  // each leaves nothing behind
  BNNSFilter f = make(kSize, NULL);
  long first = 0;
  for (int i = 0; i < 1500; i++) {
    pthread_t t;
    REQUIRE(pthread_create(&t, NULL, apply_once, f) == 0);
    pthread_join(t, NULL);
    if (i == 500) first = resident();
  }
  REQUIRE(resident() < first + 150);
}

static void use_in_child(BNNSFilter f) {
  float output[kSize];
  REQUIRE(BNNSFilterApply(f, input, output) == 0 && right(output));
  BNNSFilter own = make(kSize, NULL);
  REQUIRE(own && BNNSFilterApply(own, input, output) == 0 && right(output));
  REQUIRE(make(kSize + 1, NULL) == NULL && openbnns_last_error());
  BNNSFilterDestroy(own);
}

static void wait_for(pid_t child) {
  int status = 0;
  pid_t ended;
  while ((ended = waitpid(child, &status, 0)) < 0 && errno == EINTR) continue;
  REQUIRE(ended == child && status == 0);
}

static void start_all(pthread_t (*t)[6], BNNSFilter f) {
  stop = false;
  for (int i = 0; i < 6; i++)
    REQUIRE(pthread_create(&(*t)[i], NULL,
                           i < 2   ? create_until_stopped
                           : i < 4 ? fail_until_stopped
                                   : apply_until_stopped,
                           i < 4 ? NULL : f) == 0);
}

static void stop_all(pthread_t (*t)[6]) {
  stop = true;
  for (int i = 0; i < 6; i++) pthread_join((*t)[i], NULL);
}

static void* fork_repeatedly(void* f) {
  for (int i = 0; i < 25; i++) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      alarm(240);
      use_in_child(f);
      if (i % 5 == 0) {  // a child has threads and children of its own
        pthread_t t;
        pthread_create(&t, NULL, apply_once, f);
        const pid_t grandchild = fork();
        if (grandchild == 0) {
          alarm(240);
          use_in_child(f);
          _exit(0);
        }
        pthread_join(t, NULL);
        wait_for(grandchild);
      }
      BNNSFilterDestroy(f);
      _exit(0);
    }
    wait_for(child);
    float output[kSize];
    REQUIRE(BNNSFilterApply(f, input, output) == 0 && right(output));
  }
  return NULL;
}

static void forks(void) {  // by two threads, while six others are inside
  pthread_t t[6], forking[2];
  BNNSFilter f = make(kSize, NULL);
  REQUIRE(f);
  start_all(&t, f);
  for (int i = 0; i < 2; i++) pthread_create(&forking[i], NULL, fork_repeatedly, f);
  for (int i = 0; i < 2; i++) pthread_join(forking[i], NULL);
  stop_all(&t);
}

static void* start_library(void* unused) {
  float output[kSize];
  BNNSFilter f = make(kSize, NULL);
  REQUIRE(f && BNNSFilterApply(f, input, output) == 0 && right(output));
  return unused;
}

static void early_forks(void) {  // while another thread makes the very first call
  for (int i = 0; i < 10; i++) {
    const pid_t first = fork();
    if (first == 0) {
      pthread_t t;
      alarm(240);
      pthread_create(&t, NULL, start_library, NULL);
      usleep(20000u * (unsigned)i);
      const pid_t child = fork();
      if (child == 0) {
        alarm(240);
        start_library(NULL);
        _exit(0);
      }
      pthread_join(t, NULL);
      wait_for(child);
      _exit(0);
    }
    wait_for(first);
  }
}

static void* leave_now(void* unused) {
  (void)unused;
  exit(0);
}

static void leave(void) {  // while calls are in progress: 50 times by a child, at last by this process
  BNNSFilter f = make(kSize, NULL);
  REQUIRE(f);
  for (int i = 0; i <= 50; i++) {
    const pid_t child = i < 50 ? fork() : 0;
    if (child == 0) {
      pthread_t t[6], last;
      alarm(240);
      start_all(&t, f);
      usleep(1000u * (unsigned)(i % 25));
      if (i % 2) exit(0);
      pthread_create(&last, NULL, leave_now, NULL);  // the main thread is inside a call, too
      apply_until_stopped(f);
    }
    wait_for(child);
  }
}

static void mine(int unused) { (void)unused; }

static void signals(void) {  // stay as the host has them
  struct sigaction own, now;
  memset(&own, 0, sizeof own);
  own.sa_handler = mine;
  sigaction(SIGINT, &own, NULL);
  signal(SIGPIPE, SIG_DFL);
  BNNSFilter f = make(kSize, NULL);
  float big[kSize];
  REQUIRE(f && BNNSFilterApply(f, input, big) == 0);
  sigaction(SIGINT, NULL, &now);
  REQUIRE(now.sa_handler == mine);
  sigaction(SIGPIPE, NULL, &now);
  REQUIRE(now.sa_handler == SIG_DFL);
}

static void memory(void) {  // does not grow
  long first = 0;
  for (int i = 0; i < 4000; i++) {
    float output[kSize];
    BNNSFilter f = make(kSize, NULL);
    REQUIRE(f && BNNSFilterApply(f, input, output) == 0);
    BNNSFilterDestroy(f);
    if (i == 2000) first = resident();
  }
  REQUIRE(resident() < first + 100);
}

static void handles(void) {
  float output[kSize];
  uint64_t trash[16] = {0};
  BNNSFilter f = make(kSize, NULL), other = make(kSize, NULL);
  REQUIRE(f && other && f != other);
  REQUIRE(BNNSFilterApply(f, input, output) == 0 && BNNSFilterApply(f, input, output) == 0);
  BNNSFilterDestroy(f);
  REQUIRE(BNNSFilterApply(f, input, output) == -1);
  REQUIRE(strstr(openbnns_last_error(), "BNNSFilterApply: the filter has been destroyed"));
  BNNSFilterDestroy(f);
  BNNSFilter again = make(kSize, NULL);  // in the same place
  REQUIRE(again && again != f);
  REQUIRE(BNNSFilterApply(f, input, output) == -1 && BNNSFilterApply(again, input, output) == 0);
  BNNSFilterDestroy(f);
  REQUIRE(BNNSFilterApply(again, input, output) == 0 && right(output));
  REQUIRE(BNNSFilterApply(NULL, input, output) == -1 && strstr(openbnns_last_error(), "filter is NULL"));
  const uintptr_t near = (uintptr_t)again;
  const uintptr_t foreign[] = {(uintptr_t)trash,  1,          4096, near + 1, near + (1 << 20), near + (2u << 24),
                               near ^ 1ull << 60, UINTPTR_MAX};
  for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
    REQUIRE(BNNSFilterApply((BNNSFilter)foreign[i], input, output) == -1);
    REQUIRE(strstr(openbnns_last_error(), "which is not a filter of this library") ||
            strstr(openbnns_last_error(), "has been destroyed"));
    BNNSFilterDestroy((BNNSFilter)foreign[i]);
  }
  BNNSRandomGenerator g = BNNSCreateRandomGeneratorWithSeed(BNNSRandomGeneratorMethodAES_CTR, 1, NULL);
  REQUIRE(g && BNNSFilterApply(g, input, output) == -1);
  REQUIRE(strstr(openbnns_last_error(), "filter must be a BNNSFilter"));
  BNNSFilterDestroy(g);
  REQUIRE(BNNSRandomGeneratorStateSize(g) > 0);
  BNNSDestroyRandomGenerator(g);
  REQUIRE(BNNSRandomGeneratorStateSize(g) == 0 && strstr(openbnns_last_error(), "generator has been destroyed"));
  BNNSNearestNeighbors knn = BNNSCreateNearestNeighbors(4, 2, 1, BNNSDataTypeFloat32, NULL);
  REQUIRE(knn && BNNSNearestNeighborsLoad(knn, 2, input) == 0);
  BNNSDestroyNearestNeighbors(knn);
  REQUIRE(BNNSNearestNeighborsLoad(knn, 1, input) == -1 && strstr(openbnns_last_error(), "has been destroyed"));
  REQUIRE(BNNSFilterApply(again, input, output) == 0 && right(output));
}

static void destruction(void) {  // while others apply what is being destroyed
  for (int i = 0; i < 60; i++) {
    float output[kSize];
    pthread_t t[2];
    BNNSFilter f = make(kSize, NULL);
    REQUIRE(f && BNNSFilterApply(f, input, output) == 0);
    for (int k = 0; k < 2; k++) pthread_create(&t[k], NULL, apply_until_destroyed, f);
    usleep(300);
    BNNSFilterDestroy(f);
    for (int k = 0; k < 2; k++) pthread_join(t[k], NULL);
    REQUIRE(BNNSFilterApply(f, input, output) == -1);
  }
}

static atomic_int allocations, releases;
static int allocate(void** place, size_t alignment, size_t size) {
  allocations++;
  return posix_memalign(place, alignment, size);
}
static int refuse(void** place, size_t alignment, size_t size) { return (void)place, (void)alignment, (void)size, 12; }
static void release(void* place) {
  releases++;
  free(place);
}

static int allocate_and_call(void** place, size_t alignment, size_t size) {  // the library, from inside the library
  float output[kSize];
  BNNSFilter f = make(kSize, NULL);
  REQUIRE(f && BNNSFilterApply(f, input, output) == 0 && right(output));
  BNNSFilterDestroy(f);
  return allocate(place, alignment, size);
}

static void* allocate_often(void* number) {
  BNNSFilterParameters options = {0};
  options.alloc_memory = (size_t)number % 2 ? allocate : allocate_and_call, options.free_memory = release;
  for (int i = 0; i < 50; i++) {
    float output[kSize];
    BNNSFilter f = make(kSize, &options);
    REQUIRE(f && BNNSFilterApply(f, input, output) == 0 && right(output));
    BNNSFilterDestroy(f);
    options.alloc_memory = refuse;
    REQUIRE(make(kSize, &options) == NULL && strstr(openbnns_last_error(), "alloc_memory returned 12"));
    options.alloc_memory = (size_t)number % 2 ? allocate : allocate_and_call;
  }
  return NULL;
}

static void allocators(void) {
  BNNSFilterParameters options = {0};
  float output[kSize];
  options.alloc_memory = allocate, options.free_memory = release;
  BNNSFilter f = make(kSize, &options);
  REQUIRE(f && allocations > 0 && BNNSFilterApply(f, input, output) == 0 && right(output));
  BNNSFilterDestroy(f);
  REQUIRE(allocations == releases);
  options.free_memory = NULL;
  REQUIRE(make(kSize, &options) == NULL && strstr(openbnns_last_error(), "Supply both as a pair"));
  options.alloc_memory = refuse, options.free_memory = release;
  REQUIRE(make(kSize, &options) == NULL && strstr(openbnns_last_error(), "alloc_memory returned 12"));
  pthread_t t[4];
  for (size_t i = 0; i < 4; i++) pthread_create(&t[i], NULL, allocate_often, (void*)i);
  for (size_t i = 0; i < 4; i++) pthread_join(t[i], NULL);
  REQUIRE(allocations >= 201 && allocations == releases);
}

static void packing(void) {  // memory that the library allocates is freed with free
  float values[2] = {2, 3}, output[3] = {0};
  int32_t places[4] = {0, 1, 1, 2};  // column, row
  BNNSNDArrayDescriptor shape = matrix(2, 3, NULL), indices = matrix(2, 2, places), v = vector(2, values), out = {0};
  indices.layout = BNNSDataLayout2DFirstMajor, indices.data_type = BNNSDataTypeInt32;
  REQUIRE(BNNSNDArrayFullyConnectedSparsifySparseCOO(&shape, &indices, &v, &out, NULL, 1, NULL, 0, NULL) == 0);
  REQUIRE(out.data && out.layout == BNNSDataLayoutFullyConnectedSparse);
  BNNSLayerParametersFullyConnected p = {0};
  p.i_desc = vector(2, NULL), p.o_desc = vector(3, NULL), p.w_desc = out;
  BNNSFilter f = BNNSFilterCreateLayerFullyConnected(&p, NULL);
  REQUIRE(f && BNNSFilterApply(f, input, output) == 0);
  REQUIRE(output[0] == 0 && output[1] == 2 && output[2] == 6);
  free(out.data);
  BNNSFilterDestroy(f);
}

static void names(void) {
  REQUIRE(openbnns_last_error() == NULL && strlen(openbnns_version()) > 2);
  REQUIRE(openbnns_set_compat("no_such_switch") == -1 && strstr(openbnns_last_error(), "no_such_switch"));
  REQUIRE(openbnns_set_compat("macos15") == 0 && openbnns_last_error() == NULL);
  BNNSNDArrayDescriptor d = vector(3, input);
  d.data_type = BNNSDataTypeInt4;
  REQUIRE(BNNSNDArrayGetDataSize(&d) == 0);
  REQUIRE(openbnns_set_compat("documented") == 0 && BNNSNDArrayGetDataSize(&d) == 2);
  REQUIRE(BNNSDataLayoutGetRank(BNNSDataLayoutImageCHW) == 3 && BNNSDataLayoutGetRank(77) == SIZE_MAX);
}

// Says what happens when there is no Python: failure codes, and the reason.
static void nothing(void) {
  float output[kSize];
  REQUIRE(make(kSize, NULL) == NULL && openbnns_last_error());
  REQUIRE(BNNSFilterApply(NULL, input, output) == -1);
  REQUIRE(BNNSDataLayoutGetRank(BNNSDataLayoutVector) == SIZE_MAX && openbnns_set_compat("macos15") == -1);
  BNNSFilterDestroy(NULL);
  printf("%s\n", openbnns_last_error());
}

static const struct {
  const char* name;
  void (*run)(void);
} cases[] = {{"threads", threads},       {"many_threads", many_threads},
             {"errors", errors},         {"early_forks", early_forks},
             {"forks", forks},           {"leave", leave},
             {"signals", signals},       {"memory", memory},
             {"handles", handles},       {"destruction", destruction},
             {"allocators", allocators}, {"packing", packing},
             {"names", names},           {"nothing", nothing}};

int main(int count, char** arguments) {
  for (int i = 0; i < kSize * kSize; i++) weights[i] = (float)i;
  for (int i = 0; i < kSize; i++) bias[i] = (float)(i + 1);
  for (size_t i = 0; count > 1 && i < sizeof cases / sizeof *cases; i++)
    if (!strcmp(arguments[1], cases[i].name)) return cases[i].run(), 0;
  return 2;
}
