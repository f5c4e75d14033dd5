package netloop

func drivers() []kind { return []kind{goroutines} }
