-- Tells whether there is an entry with a scope, except one that is over and was never sent.
--
--   ARGV[4]   the scope

return answer(about[7] or 0, {}, scoped(ARGV[4]) and 1 or 0)
