"""Select-joins as Penstock doesn't serve them: the other schemes of Table 1, and semijoins chosen by what they cost.

schemes             a processor with any scheme: read this first
results             the rows of the joins themselves: Enum-J, Ref-J, Ref-J+
flavours            other descriptions of the same messages: Ref-SJ-Sub, -Tup, -Clu
envelopes           semijoins by several attributes of the filtering table, exactly (appendix C)
costs               what semijoins cost: the parametric model, and simulation (appendix D)
planning            a processor that decomposes and groups select-joins anew, by what that costs now
traffic             how many bytes messages have
subscribers         what subscribers are sent, message by message
estimated_choices   by which attributes semijoins are grouped, as estimated
"""
