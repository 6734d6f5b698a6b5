"""The registers that the simulated firmware answers: their fields in the order the tool prints them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a register; *access* is INDEX, RO, RW, WO or OP."""

    name: str
    bits: int
    access: str
    address: int = 0
    offset: int = 0


def _fields(text: str) -> tuple[Field, ...]:
    """``name bits access address offset`` a line, as ``--show_reg`` has them (recorded)."""
    found = []
    for line in text.strip().splitlines():
        name, bits, access, address, offset = line.split()
        found.append(Field(name, int(bits), access, int(address), int(offset)))
    return tuple(found)


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_PTER_HEAD = """
status 4 RO 0 0
plane_ind 4 INDEX 0 8
lp_msb 2 INDEX 0 12
pnat 2 INDEX 0 14
local_port 8 INDEX 0 16
error_page 4 INDEX 0 24
"""
PTER = _fields(
    _PTER_HEAD
    + """error_type_admin 8 RW 4 0
error_type_cap 8 RO 4 8
error_type_oper 4 RO 4 24
ber_exp 8 RW 8 0
ber_mantissa 4 RW 8 8
error_injection_time 16 RW 8 12
"""
)
"""Port Transmit Errors Register, page 0 (physical errors)."""
PTER_PORT_PAGE = _fields(
    _PTER_HEAD
    + """error_type_admin 8 RW 4 0
error_type_cap 8 RO 4 8
error_count 5 RW 8 12
"""
)
"""Page 1: single packets with a wrong checksum."""
PAOS = _fields("""
oper_status 4 RO 0 0
plane_ind 4 INDEX 0 4
admin_status 4 RW 0 8
lp_msb 2 INDEX 0 12
local_port 8 INDEX 0 16
swid 8 INDEX 0 24
e 2 RW 4 0
physical_state_status 4 RO 4 4
fd 1 RW 4 8
sleep_cap 1 RO 4 9
ps_e 4 RW 4 12
logical_state_status 3 RO 4 16
ls_e 4 RW 4 20
ee_nmxas 1 WO 4 27
ee_ps 1 WO 4 28
ee_ls 1 WO 4 29
ee 1 WO 4 30
ase 1 WO 4 31
nmx_adminstate_status 3 RO 8 0
nmxas_e 4 RW 8 4
ps_e_ext 2 RW 8 12
last_oper_status 3 RO 8 16
phy_force_linkup_mode 1 RO 8 31
""")
"""Ports Administrative and Operational Status."""

ACCL_SELECTS = _names(
    "roce_adp_retrans roce_tx_window roce_slow_restart roce_slow_restart_idle min_ack_timeout_limit_disabled "
    "adaptive_routing_forced_en selective_repeat_forced_en dc_half_handshake_en cc_per_plane_en"
)
"""What this firmware lets be chosen: its ``_field_select`` bit reads 1."""
_ACCL_FIXED = _names(
    "ack_dscp_force_field_select cc_burst_size_select cc_probe_mp_mode_field_select ifa2_turn_around_select "
    "adp_retx_profile_select"
)
_ACCL_VALUES = _names(
    "roce_adp_retrans_en roce_tx_window_en roce_slow_restart_en roce_slow_restart_idle_en "
    "min_ack_timeout_limit_disabled adaptive_routing_forced_en selective_repeat_forced_en dc_half_handshake_en "
    "cc_per_plane_en ack_dscp_force"
)
_ACCL_REST = _names(
    "ack_dscp cc_burst_size ifa2_turn_around_en adp_retx_profile_id adp_retx_base_timeout_min cc_probe_mp_mode "
    "adp_retx_profile_max_id adp_retx_profile_max_range_num time_base time_unit start_range_index range_num "
    "qp_total_timeout timeout_init_range_size timeout_init_low_bound retx_total_timeout"
) + tuple(
    f"{name}_{number}"
    for number in range(4)
    for name in ("range_size", "range_low_bound", "timeout_retry_num", "dec_mode", "prev_range_index")
)
ROCE_ACCL = tuple(
    Field(name, bits, "RW")
    for names, bits in (
        (tuple(f"{name}_field_select" for name in ACCL_SELECTS) + _ACCL_FIXED + _ACCL_VALUES, 1),
        (_ACCL_REST, 8),
    )
    for name in names
)
"""RoCE accelerations; host adapters only."""

PPCNT_HEAD = tuple(
    Field(name, 8, "INDEX" if name not in ("counters_cap", "clr") else "OP" if name == "clr" else "RO")
    for name in _names("grp port_type lp_msb pnat local_port swid prio_tc grp_profile plane_ind counters_cap lp_gl clr")
)
"""What every group of the Ports Performance Counters has in front."""


def _counters(text: str) -> tuple[Field, ...]:
    """Names; ``*`` at the end stands for two 32-bit halves, ``lane0-3`` for several lanes."""
    found = []
    for word in text.split():
        name = word.removesuffix("*")
        head, dash, last = name.partition("-")
        if dash:
            tail = last.lstrip("0123456789")
            first, final = int(head[-1]), int(last[: len(last) - len(tail)])
            names = [f"{head[:-1]}{lane}{tail}" for lane in range(first, final + 1)]
        else:
            names = [name]
        for one in names:
            found += [f"{one}_high", f"{one}_low"] if word.endswith("*") else [one]
    return tuple(Field(name, 32, "RO") for name in found)


_LANE_BERS = " ".join(f"raw_ber_coef_lane{lane} raw_ber_magnitude_lane{lane}" for lane in (1, 0, 3, 2, 5, 4, 7, 6))
PPCNT_GROUPS = {
    0x12: _counters(
        "time_since_last_clear* symbol_errors* sync_headers_errors* edpl_bip_errors_lane0-3* "
        "fc_fec_corrected_blocks_lane0-3* fc_fec_uncorrectable_blocks_lane0-3* rs_fec_corrected_blocks* "
        "rs_fec_uncorrectable_blocks* rs_fec_no_errors_blocks* rs_fec_corrected_symbols_total* "
        "rs_fec_corrected_symbols_lane0-3* link_down_events successful_recovery_events "
        "rs_fec_corrected_symbols_lane4-7* unintentional_link_down_events intentional_link_down_events"
    ),
    0x16: _counters(
        "time_since_last_clear* phy_received_bits* phy_symbol_errors* phy_corrected_bits* phy_raw_errors_lane0-7* "
        "raw_ber_coef raw_ber_magnitude fc_zero_hist effective_ber_coef effective_ber_magnitude "
        "estimated_effective_ber_coef estimated_effective_ber_coef_float estimated_effective_ber_magnitude "
        f"symbol_ber_coef symbol_ber_magnitude ucr_ber_coef ucr_ber_coef_float ucr_ber_magnitude {_LANE_BERS} "
        "phy_effective_errors*"
    ),
    0x20: _counters(
        "link_downed_counter link_error_recovery_counter symbol_error_counter port_rcv_remote_physical_errors "
        "port_rcv_errors port_xmit_discards port_rcv_switch_relay_errors excessive_buffer_overrun_errors "
        "local_link_integrity_errors port_rcv_constraint_errors port_xmit_constraint_errors vl_15_dropped "
        "qp1_dropped port_xmit_data port_rcv_data port_xmit_pkts port_rcv_pkts port_xmit_wait"
    ),
    0x22: _counters(
        "plr_rcv_codes* plr_rcv_code_err* plr_rcv_uncorrectable_code* plr_xmit_codes* plr_xmit_retry_codes* "
        "plr_xmit_retry_events* plr_sync_events* plr_codes_loss* plr_xmit_retry_events_within_t_sec_max* "
        "plr_outstanding_cells plr_rcv_good_codes* plr_tx_codes_loss* plr_tx_max_outstanding_cell*"
    ),
}
"""Groups of counters: physical, statistical, InfiniBand PortCounters, link-level retry."""
