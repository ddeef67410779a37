// Elements side by side as one access of up to 16 bytes; the address is a multiple of the access.
template <int bytes>
struct Words;
template <>
struct Words<2> {
  typedef unsigned short type;
};
template <>
struct Words<4> {
  typedef unsigned int type;
};
template <>
struct Words<8> {
  typedef uint2 type;
};
template <>
struct Words<16> {
  typedef uint4 type;
};

template <typename Element, int count>
__device__ inline void load_vector(Element (&to)[count], const Element* from) {
  constexpr int bytes = count * sizeof(Element), access = bytes < 16 ? bytes : 16;
  typedef typename Words<access>::type Word;
  if constexpr (sizeof(Element) == 2 && count == 2) {
    // Taken apart by shifts, which the compiler joins with what widens them.
    const unsigned word = *reinterpret_cast<const unsigned*>(from);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      union {
        unsigned short bits;
        Element element;
      } half;
      half.bits = (unsigned short)(word >> 16 * i);
      to[i] = half.element;
    }
    return;
  }
  union {
    Word words[bytes / access];
    Element elements[count];
  } both;
#pragma unroll
  for (int i = 0; i < bytes / access; ++i) both.words[i] = reinterpret_cast<const Word*>(from)[i];
#pragma unroll
  for (int i = 0; i < count; ++i) to[i] = both.elements[i];
}

template <typename Element, int count>
__device__ inline void store_vector(Element* to, const Element (&from)[count]) {
  constexpr int bytes = count * sizeof(Element), access = bytes < 16 ? bytes : 16;
  typedef typename Words<access>::type Word;
  union {
    Word words[bytes / access];
    Element elements[count];
  } both;
#pragma unroll
  for (int i = 0; i < count; ++i) both.elements[i] = from[i];
#pragma unroll
  for (int i = 0; i < bytes / access; ++i) reinterpret_cast<Word*>(to)[i] = both.words[i];
}
