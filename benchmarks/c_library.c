// Times calls of the C library in a loop of C: prints one number per line, by name. usage: c_library CASE
#include <openbnns/bnns.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kSize = 8, kRounds = 9 };

static float w[kSize * kSize], b[kSize], x[kSize] = {1, 2, 3, 4, 5, 6, 7, 8};

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void require(int good, const char *what) {
  if (good) return;
  const char *text = openbnns_last_error();
  fprintf(stderr, "%s: %s\n", what, text ? text : "failed");
  exit(1);
}

static BNNSNDArrayDescriptor tensor(BNNSDataLayout layout, size_t n, size_t m, void *data) {
  BNNSNDArrayDescriptor d = {0};
  d.layout = layout, d.size[0] = n, d.size[1] = m, d.data = data, d.data_type = BNNSDataTypeFloat32;
  return d;
}
static BNNSNDArrayDescriptor vector(size_t n, void *data) { return tensor(BNNSDataLayoutVector, n, 0, data); }
static BNNSNDArrayDescriptor matrix(size_t n, size_t m, void *data) {
  return tensor(BNNSDataLayoutRowMajorMatrix, n, m, data);
}

static BNNSFilter make(void) {
  BNNSLayerParametersFullyConnected p = {0};
  p.i_desc = vector(kSize, NULL), p.o_desc = vector(kSize, NULL);
  p.w_desc = matrix(kSize, kSize, w), p.bias = vector(kSize, b);
  BNNSFilter f = BNNSFilterCreateLayerFullyConnected(&p, NULL);
  require(f != NULL, "creation");
  return f;
}

static BNNSFilter filter;
static float y[kSize], dx[kSize], dw[kSize * kSize], db[kSize], dy[kSize] = {1}, from[32 * 64], to[32 * 64];
static BNNSNDArrayDescriptor ddx, ddy, ddw, ddb, source, target;

static void apply(void) { require(BNNSFilterApply(filter, x, y) == 0, "apply"); }
static void backward(void) {
  require(BNNSFilterApplyBackwardBatch(filter, 1, x, 0, &ddx, 0, y, 0, &ddy, 0, &ddw, &ddb) == 0, "backward");
}
static void copy(void) { require(BNNSCopy(&target, &source, NULL) == 0, "copy"); }
static void create(void) { BNNSFilterDestroy(make()); }

// The fastest of several rounds, in nanoseconds per call.
static double fastest(void (*step)(void), int count) {
  double best = 1e9;
  for (int i = 0; i < count; i++) step();
  for (int round = 0; round < kRounds; round++) {
    const double start = now();
    for (int i = 0; i < count; i++) step();
    const double each = (now() - start) / count;
    if (each < best) best = each;
  }
  return 1e9 * best;
}

static void *apply_many(void *seconds) {
  float out[kSize];
  BNNSFilter own = make();
  long *calls = malloc(sizeof *calls);
  *calls = 0;
  for (const double end = now() + *(double *)seconds; now() < end;)
    for (int i = 0; i < 1000; i++, ++*calls) require(BNNSFilterApply(own, x, out) == 0, "apply");
  return calls;
}

static double per_second(int threads) {
  pthread_t t[2];
  double seconds = 0.5;
  long total = 0;
  for (int i = 0; i < threads; i++) pthread_create(&t[i], NULL, apply_many, &seconds);
  for (int i = 0; i < threads; i++) {
    void *calls;
    pthread_join(t[i], &calls);
    total += *(long *)calls;
    free(calls);
  }
  return (double)total / seconds;
}

static long resident_kilobytes(void) {
  long pages = 0, kept = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (!file || fscanf(file, "%ld %ld", &pages, &kept) != 2) kept = 0;
  if (file) fclose(file);
  return kept * 4;
}

int main(int count, char **arguments) {
  const char *name = count > 1 ? arguments[1] : "";
  const double start = now();
  filter = make();
  if (!strcmp(name, "first")) return printf("%.1f\n", 1e3 * (now() - start)), 0;
  ddx = vector(kSize, dx), ddy = vector(kSize, dy), ddw = matrix(kSize, kSize, dw), ddb = vector(kSize, db);
  source = matrix(32, 64, from), target = matrix(32, 64, to);
  if (!strcmp(name, "apply")) {
    printf("%.1f\n", fastest(apply, 200000));
  } else if (!strcmp(name, "backward")) {
    printf("%.1f\n", fastest(backward, 100000));
  } else if (!strcmp(name, "copy")) {
    printf("%.1f\n", fastest(copy, 2000));
  } else if (!strcmp(name, "create")) {
    printf("%.1f\n", fastest(create, 500));
  } else if (!strcmp(name, "threads")) {
    double best = 0;
    for (int round = 0; round < 3; round++) {
      const double one = per_second(1), ratio = per_second(2) / one;
      if (ratio > best) best = ratio;
    }
    printf("%.3f\n", best);
  } else if (!strcmp(name, "memory")) {
    long first = 0;
    for (int i = 0; i < 100000; i++) {
      BNNSFilter f = make();
      require(BNNSFilterApply(f, x, y) == 0, "apply");
      BNNSFilterDestroy(f);
      if (i == 10000) first = resident_kilobytes();
    }
    printf("%ld\n", resident_kilobytes() - first);
  } else {
    return 2;
  }
  return 0;
}
