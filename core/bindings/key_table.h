// Recorded calls by their description. Threads without the interpreter's lock may look entries up at any time; threads
// that add or clear entries hold the lock.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstring>
#include <functional>
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
  ~KeyTable() { clear(); }

  // Null if there is none; the address stays valid until clear().
  const Value* find(std::string_view key) const {
    const Node* node = bucket(key).load(std::memory_order_acquire);
    while (node && node->key != key) node = node->next;
    return node ? &node->value : nullptr;
  }

  // An earlier value for the key is no longer found.
  void add(std::string key, Value value) {
    std::atomic<const Node*>& first = bucket(key);
    first.store(new Node{std::move(key), std::move(value), first.load()}, std::memory_order_release);
    size_++;
  }

  // No thread may be reading the table: those that read without the lock use a number (numbered.h), which must have
  // ended.
  void clear() {
    for (std::atomic<const Node*>& first : buckets_) {
      const Node* node = first.exchange(nullptr);
      while (node) delete std::exchange(node, node->next);
    }
    size_ = 0;
  }

  size_t size() const { return size_; }

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
  size_t size_ = 0;
};

}  // namespace openbnns
