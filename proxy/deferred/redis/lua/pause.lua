-- Has the lines of a rule wait, or go on.
--
--   ARGV[4]   the rule; ARGV[5] whether it is paused

roomy()
call(ARGV[5] == '1' and 'SADD' or 'SREM', K .. 'paused', ARGV[4])
rules[ARGV[4]] = true
return commit(0)
