-- The action weir asks Weir about the request, and leaves in txn.weir_status the status of the
-- answer, in txn.weir_retry the seconds until a refused request may come again. Each field that
-- describes the request is set here, so that none of a client's counts.
local own = { ["x-original-method"] = true, ["x-original-uri"] = true, ["x-original-host"] = true,
	["x-forwarded-for"] = true, ["content-length"] = true, ["transfer-encoding"] = true, ["connection"] = true, ["host"] = true, ["expect"] = true, ["upgrade"] = true }

core.register_action("weir", { "http-req" }, function(txn, address)
	local headers = {}
	for name, values in pairs(txn.http:req_get_headers()) do
		if not own[name] then
			local list = {}
			for _, value in pairs(values) do
				list[#list + 1] = value
			end
			headers[name] = list
		end
	end
	headers["x-original-method"] = { txn.f:method() }
	headers["x-original-uri"] = { txn.f:pathq() }
	headers["x-original-host"] = { txn.sf:req_fhdr("host") ~= "" and txn.sf:req_fhdr("host") or "none" }
	headers["x-forwarded-for"] = { txn.f:src() }
	local answer = core.httpclient():get { url = "http://" .. address .. "/check/original", headers = headers, timeout = 3000 }
	txn:set_var("txn.weir_status", answer.status)
	local retry = answer.headers and answer.headers["retry-after"]
	if retry then
		txn:set_var("txn.weir_retry", retry[0] or retry[1])
	end
end, 1)
