"""Convert profiles of Nsight Compute and nvprof to kernel files.

>>> from sweep.importers.profiles.inputs import inputs_of
>>> from sweep.importers.profiles.launches import chosen, read_profile
>>> launches = read_profile('''
... "ID","Kernel Name","Block Size","Grid Size","Metric Name","Metric Unit","Metric Value"
... "0","axpy(float*)","(256, 1, 1)","(4096, 1, 1)","smsp__inst_executed.sum","inst","425,984"
... "0","axpy(float*)","(256, 1, 1)","(4096, 1, 1)","lts__t_sectors_op_read.sum","sector","262,144"
... ''')
>>> inputs = inputs_of(chosen(launches))
>>> [(access.name, access.count, access.transactions) for access in inputs.global_accesses]
[('loads', 2.0, 4.0)]
>>> inputs.warps, inputs.computation
(32768, 11.0)
"""
