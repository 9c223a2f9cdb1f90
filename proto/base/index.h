// SPDX-License-Identifier: Apache-2.0
#pragma once
// Indices of lists, with a type of their own for each list: a lane is not a buffer, and neither
// indexes the other's list. An Index costs what an int costs.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace stretto {

template <class Tag>
class Index {
 public:
  constexpr Index() = default;  // of none: -1
  // Constants convert implicitly: `lane = 0`, `alias >= 0`. Computed values need Of.
  consteval Index(int value) : value_(value) {}
  template <class Integer>
  static constexpr Index Of(Integer value) {
    Index index;
    index.value_ = static_cast<int32_t>(value);
    return index;
  }

  constexpr int value() const { return value_; }
  constexpr size_t position() const { return static_cast<size_t>(value_); }
  friend constexpr bool operator==(Index, Index) = default;
  friend constexpr auto operator<=>(Index, Index) = default;
  friend constexpr bool operator==(Index index, int value) { return index.value_ == value; }

  constexpr Index& operator++() { return ++value_, *this; }
  friend constexpr Index operator+(Index index, int by) { return Of(index.value_ + by); }
  friend constexpr Index operator-(Index index, int by) { return Of(index.value_ - by); }
  friend constexpr int operator-(Index last, Index first) { return last.value_ - first.value_; }

 private:
  int32_t value_ = -1;
};

// The indices [0, count), for range loops.
template <class Id>
class IdRange {
 public:
  explicit IdRange(size_t count) : end_(Id::Of(count)) {}
  struct Iterator {
    Id id;
    Id operator*() const { return id; }
    Iterator& operator++() { return ++id, *this; }
    bool operator!=(const Iterator& other) const { return id != other.id; }
  };
  Iterator begin() const { return {Id::Of(0)}; }
  Iterator end() const { return {end_}; }

 private:
  Id end_;
};

// A vector that is indexed by one type of Index, and by nothing else.
template <class Id, class T>
class IdVector : public std::vector<T> {
 public:
  using Base = std::vector<T>;
  using Base::Base;
  IdVector() = default;
  IdVector(Base items) : Base(std::move(items)) {}

  typename Base::reference operator[](Id id) { return Base::operator[](id.position()); }
  typename Base::const_reference operator[](Id id) const { return Base::operator[](id.position()); }
  typename Base::reference at(Id id) { return Base::at(id.position()); }
  typename Base::const_reference at(Id id) const { return Base::at(id.position()); }

  bool Has(Id id) const { return id.position() < this->size(); }  // -1 is no position
  Id Add(T item) {
    this->push_back(std::move(item));
    return next() - 1;
  }
  Id next() const { return Id::Of(this->size()); }  // what Add gives
  IdRange<Id> ids() const { return IdRange<Id>(this->size()); }
};

}  // namespace stretto
