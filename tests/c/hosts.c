// What hosts do to a library: threads of their own, forks, signals, an exit while calls are in progress, handles that
// are none, allocators. usage: hosts CASE
#include <openbnns/bnns.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kSize = 8 };

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
  while (!stop) BNNSFilterDestroy(make(kSize, NULL));
  return unused;
}

static void* apply_until_stopped(void* filter) {
  float output[kSize];
  while (!stop) BNNSFilterApply(filter, input, output);
  return NULL;
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

static void forks(void) {  // while other threads are inside
  pthread_t t[3];
  float output[kSize];
  BNNSFilter f = make(kSize, NULL);
  REQUIRE(f && BNNSFilterApply(f, input, output) == 0);
  for (int i = 0; i < 2; i++) pthread_create(&t[i], NULL, create_until_stopped, NULL);
  pthread_create(&t[2], NULL, apply_until_stopped, f);
  for (int i = 0; i < 25; i++) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      REQUIRE(BNNSFilterApply(f, input, output) == 0 && right(output));
      BNNSFilter own = make(kSize, NULL);
      REQUIRE(own && BNNSFilterApply(own, input, output) == 0);
      REQUIRE(make(kSize + 1, NULL) == NULL && openbnns_last_error());
      BNNSFilterDestroy(own);
      BNNSFilterDestroy(f);
      _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child && status == 0);
    REQUIRE(BNNSFilterApply(f, input, output) == 0 && right(output));
  }
  stop = true;
  for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
}

static void leave(void) {  // while calls are in progress
  pthread_t t[4];
  BNNSFilter f = make(kSize, NULL);
  for (int i = 0; i < 2; i++) pthread_create(&t[i], NULL, create_until_stopped, NULL);
  for (int i = 2; i < 4; i++) pthread_create(&t[i], NULL, apply_until_stopped, f);
  usleep(200000);
  exit(0);
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
    REQUIRE(strstr(openbnns_last_error(), "which is no filter of this library") ||
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
    stop = false;
    for (int k = 0; k < 2; k++) pthread_create(&t[k], NULL, apply_until_stopped, f);
    usleep(300);
    BNNSFilterDestroy(f);
    usleep(300);
    stop = true;
    for (int k = 0; k < 2; k++) pthread_join(t[k], NULL);
    REQUIRE(BNNSFilterApply(f, input, output) == -1);
  }
}

static int allocations, releases;
static int allocate(void** place, size_t alignment, size_t size) {
  allocations++;
  return posix_memalign(place, alignment, size);
}
static int refuse(void** place, size_t alignment, size_t size) { return (void)place, (void)alignment, (void)size, 12; }
static void release(void* place) {
  releases++;
  free(place);
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
