// Recorded calls by their description. Threads outside the interpreter may look entries up at any time, by a number
// (numbered.h). Threads of the interpreter add, copy and clear entries one at a time: by its lock, or by one of the
// table's own where Python has none.
#pragma once
#include <nanobind/nanobind.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace openbnns {

// A description of at most kMost bytes.
template <size_t kMost>
class Key {
 public:
  void add(const void* bytes, size_t size) {
    if (length_ + size > kMost) return void(full_ = true);
    std::memcpy(bytes_ + length_, bytes, size);
    length_ += size;
  }
  template <class T>
  void add(const T& value) {
    add(&value, sizeof(value));
  }
  bool full() const { return full_; }  // the description is too long for a key
  std::string_view text() const { return {bytes_, length_}; }

 private:
  char bytes_[kMost];
  size_t length_ = 0;
  bool full_ = false;
};

template <class Value>
class KeyTable {
 public:
  KeyTable() = default;
  KeyTable(const KeyTable&) = delete;
  ~KeyTable() {
    clear([] {});
  }

  // Null if there is none. For threads that use a number: the address stays valid as long as they do.
  const Value* find(std::string_view key) const {
    const Node* node = bucket(key).load(std::memory_order_acquire);
    while (node && node->key != key) node = node->next;
    return node ? &node->value : nullptr;
  }

  // For threads of the interpreter.
  std::optional<Value> copy(std::string_view key) const {
    const nanobind::ft_lock_guard locked(mutex_);
    const Value* found = find(key);
    return found ? std::optional<Value>(*found) : std::nullopt;
  }

  // An earlier value for the key is no longer found.
  void add(std::string key, Value value) {
    const nanobind::ft_lock_guard locked(mutex_);
    std::atomic<const Node*>& first = bucket(key);
    first.store(new Node{std::move(key), std::move(value), first.load()}, std::memory_order_release);
    size_++;
  }

  // `end_numbers` waits for the threads that use numbers. By then entries cannot be found any more; they are destroyed
  // afterwards, without the lock, because what they own may call Python code.
  template <class EndNumbers>
  void clear(EndNumbers end_numbers) {
    const Node* old[kBuckets];
    {
      const nanobind::ft_lock_guard locked(mutex_);
      for (size_t i = 0; i < kBuckets; i++) old[i] = buckets_[i].exchange(nullptr);
      size_ = 0;
    }
    end_numbers();
    for (const Node* node : old)
      while (node) delete std::exchange(node, node->next);
  }

  size_t size() const { return size_.load(std::memory_order_relaxed); }

 private:
  struct Node {
    const std::string key;
    const Value value;
    const Node* const next;
  };
  static constexpr size_t kBuckets = 64;

  const std::atomic<const Node*>& bucket(std::string_view key) const {
    return buckets_[std::hash<std::string_view>()(key) % kBuckets];
  }
  std::atomic<const Node*>& bucket(std::string_view key) {
    return buckets_[std::hash<std::string_view>()(key) % kBuckets];
  }

  std::atomic<const Node*> buckets_[kBuckets] = {};  // lists by hash, to which nodes are added in front
  std::atomic<size_t> size_{0};
  mutable nanobind::ft_mutex mutex_;
};

}  // namespace openbnns
