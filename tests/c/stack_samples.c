/* A sampling profiler for tests: the stack of the process, as the C library unwinds it, every few milliseconds. */
#include <execinfo.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>

enum { MOST = 400, DEEPEST = 120 };
static void* frames[MOST][DEEPEST];
static int depths[MOST];
static volatile sig_atomic_t count;

static void sample(int signal_number) {
  (void)signal_number;
  if (count < MOST) {
    depths[count] = backtrace(frames[count], DEEPEST);
    count++;
  }
}

static void every(long microseconds) {
  struct itimerval timer = {{0, microseconds}, {0, microseconds}};
  setitimer(ITIMER_PROF, &timer, NULL);
}

void begin_samples(void) {
  struct sigaction action;
  void* here[2];
  backtrace(here, 2); /* loads what it needs, which a handler of signals may not do */
  memset(&action, 0, sizeof action);
  action.sa_handler = sample;
  action.sa_flags = SA_RESTART;
  sigaction(SIGPROF, &action, NULL);
  every(2000);
}

int end_samples(void) {
  every(0);
  return count;
}

int depth_of(int i) { return depths[i]; }
void* frame_of(int i, int k) { return frames[i][k]; }
