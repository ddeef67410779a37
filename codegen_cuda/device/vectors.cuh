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
  union {
    Word words[bytes / access];
    unsigned pairs[(bytes + 3) / 4];
    Element elements[count];
  } all;
#pragma unroll
  for (int i = 0; i < bytes / access; ++i) all.words[i] = reinterpret_cast<const Word*>(from)[i];
#pragma unroll
  for (int i = 0; i < count; ++i) {
    if constexpr (sizeof(Element) == 2 && count > 1) {
      // Taken apart by shifts, which the compiler joins with what widens them.
      union {
        unsigned short bits;
        Element element;
      } half;
      half.bits = (unsigned short)(all.pairs[i / 2] >> 16 * (i % 2));
      to[i] = half.element;
    } else {
      to[i] = all.elements[i];
    }
  }
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
