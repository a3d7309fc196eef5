#include "clib/fork_gate.h"

#include <pthread.h>
#include <time.h>

namespace openbnns {
namespace clib {
namespace {

constexpr time_t kLongestWaitSeconds = 60;  // longer than imports take on a busy machine

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
int inside = 0;       // threads
bool closed = false;  // a fork is coming
thread_local int depth = 0;

}  // namespace

void enter_gate() {
  if (depth++ > 0) return;
  pthread_mutex_lock(&mutex);
  while (closed) pthread_cond_wait(&changed, &mutex);
  inside++;
  pthread_mutex_unlock(&mutex);
}

void leave_gate() {
  if (--depth > 0) return;
  pthread_mutex_lock(&mutex);
  if (--inside == 0 && closed) pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
}

void close_gate() {
  pthread_mutex_lock(&mutex);
  closed = true;
  timespec end;
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += kLongestWaitSeconds;
  while (depth == 0 && inside > 0)
    if (pthread_cond_timedwait(&changed, &mutex, &end) != 0) break;
  // The mutex is kept over the fork, so that no other thread of the parent is in the middle of it.
}

void open_gate() {
  closed = false;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
}

void open_gate_in_child() {
  closed = false;
  inside = depth > 0;
  changed = PTHREAD_COND_INITIALIZER;  // those who waited are not here
  pthread_mutex_unlock(&mutex);
}

}  // namespace clib
}  // namespace openbnns
