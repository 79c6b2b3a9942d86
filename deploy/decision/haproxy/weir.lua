-- The action weir asks Weir about the request. If Weir refuses it, the action leaves the status for
-- the client in txn.weir_status, and in txn.weir_retry the seconds until it may come again. Each
-- field that describes the request is set here, so that none of a client's counts.
local own = { ["x-original-method"] = true, ["x-original-uri"] = true, ["x-original-host"] = true,
	["x-forwarded-for"] = true, ["content-length"] = true, ["transfer-encoding"] = true, ["connection"] = true, ["host"] = true, ["expect"] = true, ["upgrade"] = true }
-- More fields are not sent: HAProxy accepts up to 101 (tune.http.maxhdr), but its httpclient, which
-- adds some, then sends nothing, or in version 2.6 ends the process. Those that a request repeats are
-- joined first. A request with more names is refused with 431: if some fields were left out, a client
-- could have rules miss the one that they look at.
local fields_max = 80
-- Answers of Weir about a request that it cannot read.
local unread = { [400] = true, [413] = true, [414] = true, [417] = true, [431] = true }

-- A target that is only a host, and *, have no path.
local function target(txn)
	local path = txn.f:pathq()
	if path and path ~= "" then
		return path
	end
	return txn.f:url() == "*" and "*" or "/"
end

core.register_action("weir", { "http-req" }, function(txn, address)
	local headers, names, fields = {}, 0, 0
	for name, values in pairs(txn.http:req_get_headers()) do
		if not own[name] then
			local list = {}
			for _, value in pairs(values) do
				list[#list + 1] = value
			end
			headers[name], names, fields = list, names + 1, fields + #list
		end
	end
	if names > fields_max then
		txn:set_var("txn.weir_status", 431)
		return
	end
	if fields > fields_max then
		for name, list in pairs(headers) do
			headers[name] = { table.concat(list, name == "cookie" and "; " or ", ") }
		end
	end
	headers["x-original-method"] = { txn.f:method() }
	headers["x-original-uri"] = { target(txn) }
	headers["x-original-host"] = { txn.sf:req_fhdr("host") ~= "" and txn.sf:req_fhdr("host") or "none" }
	headers["x-forwarded-for"] = { txn.f:src() }
	local answer = core.httpclient():get { url = "http://" .. address .. "/check/original?deny=403", headers = headers, timeout = 3000 }
	local told = answer.headers and answer.headers["x-weir-status"]
	if told then
		txn:set_var("txn.weir_status", tonumber(told[0] or told[1]))
	elseif unread[answer.status] then
		txn:set_var("txn.weir_status", 400)
	end
	local retry = answer.headers and answer.headers["retry-after"]
	if retry then
		txn:set_var("txn.weir_retry", retry[0] or retry[1])
	end
end, 1)
