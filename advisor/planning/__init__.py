"""The planner behind `recommend`, `hardware`, `explain` and `render`: the best plan for a model on a machine.

traffic     what the requests look like: longest, typical, how many at once
holding     what a deployment starts with, and how many requests it holds
layouts     how cards share the work: tensor parallel, stages, copies
offload     which experts and layers lie in host memory
candidates  weight formats x cache types x layouts, pruned by bounds
objective   which of them answers the question best
search      the best plan of one engine
"""
