"""Convert compiler-generated PTX text to kernel files.

>>> from sweep.importers.ptx.analysis import analyse
>>> from sweep.importers.ptx.parser import read_ptx
>>> module = read_ptx('''
... .version 9.0
... .target sm_75
... .address_size 64
... .visible .entry scale(.param .u64 x, .param .f32 a)
... {
...     .reg .b64 %rd<4>;
...     .reg .b32 %r<2>;
...     .reg .f32 %f<4>;
...     ld.param.u64 %rd1, [x];
...     ld.param.f32 %f1, [a];
...     mov.u32 %r1, %tid.x;
...     mul.wide.u32 %rd2, %r1, 4;
...     add.s64 %rd3, %rd1, %rd2;
...     ld.global.f32 %f2, [%rd3];
...     mul.f32 %f3, %f1, %f2;
...     st.global.f32 [%rd3], %f3;
...     ret;
... }
... ''')
>>> kernel = analyse(module.entry())
>>> kernel.instructions(), sum(kernel.accesses().values()), kernel.registers
({'move': 3.0, 'integer': 1.0, 'fp32': 1.0, 'control': 1.0}, 2.0, 5)
"""
