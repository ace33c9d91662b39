// How does inline PTX name the accumulators of a wgmma? For R registers d[0] .. d[R-1]: MOE_NAMES_R is the
// text "%0, %1, ..." of the instruction, MOE_REGS_R(C) the operand list, where C makes one operand of a
// register: MOE_INOUT_F32 for f32, MOE_INOUT_B32 for pairs of f16. For code under nvcc only.
#pragma once

// clang-format off
#define MOE_INOUT_F32(x) "+f"(x)
#define MOE_INOUT_B32(x) "+r"(x)

#define MOE_NAMES_2 "%0, %1"
#define MOE_NAMES_4 MOE_NAMES_2 ", %2, %3"
#define MOE_NAMES_6 MOE_NAMES_4 ", %4, %5"
#define MOE_NAMES_8 MOE_NAMES_6 ", %6, %7"
#define MOE_NAMES_12 MOE_NAMES_8 ", %8, %9, %10, %11"
#define MOE_NAMES_16 MOE_NAMES_12 ", %12, %13, %14, %15"
#define MOE_NAMES_24 MOE_NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define MOE_NAMES_32 MOE_NAMES_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define MOE_NAMES_48 MOE_NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define MOE_NAMES_64 MOE_NAMES_48 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define MOE_NAMES_96 MOE_NAMES_64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79" \
  ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define MOE_NAMES_128 MOE_NAMES_96 ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111" \
  ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

#define MOE_LIST_2(C, i) C(d[i]), C(d[(i) + 1])
#define MOE_LIST_4(C, i) MOE_LIST_2(C, i), MOE_LIST_2(C, (i) + 2)
#define MOE_LIST_8(C, i) MOE_LIST_4(C, i), MOE_LIST_4(C, (i) + 4)
#define MOE_LIST_16(C, i) MOE_LIST_8(C, i), MOE_LIST_8(C, (i) + 8)
#define MOE_LIST_32(C, i) MOE_LIST_16(C, i), MOE_LIST_16(C, (i) + 16)
#define MOE_LIST_64(C, i) MOE_LIST_32(C, i), MOE_LIST_32(C, (i) + 32)
#define MOE_REGS_2(C) MOE_LIST_2(C, 0)
#define MOE_REGS_4(C) MOE_LIST_4(C, 0)
#define MOE_REGS_6(C) MOE_LIST_4(C, 0), MOE_LIST_2(C, 4)
#define MOE_REGS_8(C) MOE_LIST_8(C, 0)
#define MOE_REGS_12(C) MOE_LIST_8(C, 0), MOE_LIST_4(C, 8)
#define MOE_REGS_16(C) MOE_LIST_16(C, 0)
#define MOE_REGS_24(C) MOE_LIST_16(C, 0), MOE_LIST_8(C, 16)
#define MOE_REGS_32(C) MOE_LIST_32(C, 0)
#define MOE_REGS_48(C) MOE_LIST_32(C, 0), MOE_LIST_16(C, 32)
#define MOE_REGS_64(C) MOE_LIST_64(C, 0)
#define MOE_REGS_96(C) MOE_LIST_64(C, 0), MOE_LIST_32(C, 64)
#define MOE_REGS_128(C) MOE_LIST_64(C, 0), MOE_LIST_64(C, 64)
// clang-format on
