; y[2 i] = a x[i] + y[2 i], a thread for every i below n, and a loop of 12 steps around it.
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"

declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()

define ptx_kernel void @saxpy_strided(float %a, ptr addrspace(1) %x, ptr addrspace(1) %y, i32 %n) {
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %b = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %w = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %o = mul i32 %b, %w
  %i = add i32 %o, %t
  %inside = icmp slt i32 %i, %n
  br i1 %inside, label %work, label %done

work:
  %j = mul i32 %i, 2
  %px = getelementptr float, ptr addrspace(1) %x, i32 %i
  %py = getelementptr float, ptr addrspace(1) %y, i32 %j
  br label %loop

loop:
  %k = phi i32 [ 0, %work ], [ %k1, %loop ]
  %vx = load volatile float, ptr addrspace(1) %px
  %vy = load volatile float, ptr addrspace(1) %py
  %p = fmul float %a, %vx
  %s = fadd float %p, %vy
  store volatile float %s, ptr addrspace(1) %py
  %k1 = add i32 %k, 1
  %more = icmp ne i32 %k1, 12
  br i1 %more, label %loop, label %done

done:
  ret void
}
