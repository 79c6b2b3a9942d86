-- Tells what there is of every rule.

local told = {}
for _, rule in ipairs(call('SMEMBERS', K .. 'names')) do told[#told + 1] = stats(rule) end
return answer(about[7] or 0, told, 0)
