// Networks of ns-3's lr-wpan for `cargo xtask long radio-validation`: the stars and chains that
// crates/mesh/examples/radio_validation runs on Carob's radio model, with the same frames.
//
// ns-3's error model lets a frame survive another one of the same power: at 0 dB its bit error ratio is
// 2e-4. Carob's model has every overlap destroy frames, as transceivers specify (CC2420: co-channel
// rejection 3 dB). So that both have the same collisions, the channel adds strong noise to a receiver
// while two signals overlap there. `--capture` leaves it out.
//
// Usage: lrwpan KIND NODES BYTES RATE SECONDS SEED [--capture]
// Prints: delivered, offered, sum of delays in s, frames, transmissions.

#include <cstring>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ns3/core-module.h"
#include "ns3/lr-wpan-module.h"
#include "ns3/mobility-module.h"
#include "ns3/network-module.h"
#include "ns3/propagation-module.h"
#include "ns3/spectrum-module.h"

using namespace ns3;

namespace
{

constexpr double NEAR_DB = 50;    // far above the sensitivity of -106.58 dBm at 0 dBm
constexpr double NOWHERE_DB = 500; // neither received nor sensed
constexpr double NOISE_DBM = 30;
// MAC header with two short addresses and one PAN identifier, and FCS.
constexpr uint32_t AROUND = 11;

bool g_capture = false;

/// A channel on which overlapping signals destroy each other.
class DestructiveChannel : public SingleModelSpectrumChannel
{
  public:
    /// Declares that `to` receives `from`.
    void Hears(Ptr<SpectrumPhy> from, Ptr<SpectrumPhy> to)
    {
        m_heard[PeekPointer(from)].push_back(to);
    }

    void StartTx(Ptr<SpectrumSignalParameters> params) override
    {
        SingleModelSpectrumChannel::StartTx(params);
        if (g_capture)
        {
            return;
        }
        const Time now = Simulator::Now();
        const Time end = now + params->duration;
        for (const auto& to : m_heard[PeekPointer(params->txPhy)])
        {
            Time& until = m_until[PeekPointer(to)];
            if (until > now)
            {
                Ptr<SpectrumSignalParameters> noise = Create<SpectrumSignalParameters>();
                LrWpanSpectrumValueHelper helper;
                noise->psd = helper.CreateTxPowerSpectralDensity(NOISE_DBM, 11);
                noise->duration = Max(until, end) - now;
                noise->txPhy = nullptr;
                // After the signals themselves have begun.
                Simulator::ScheduleNow(&SpectrumPhy::StartRx, to, noise);
            }
            until = Max(until, end);
        }
    }

  private:
    std::map<SpectrumPhy*, std::vector<Ptr<SpectrumPhy>>> m_heard;
    std::map<SpectrumPhy*, Time> m_until;
};

/// A message, in the first bytes of each frame's payload.
struct Message
{
    uint32_t from;
    uint32_t number;
};

class Bench
{
  public:
    Bench(const std::string& kind, uint32_t nodes, uint32_t bytes, double rate)
        : m_saturated(kind != "chain"),
          m_bytes(bytes - AROUND),
          m_gap(CreateObject<ExponentialRandomVariable>())
    {
        const uint32_t count = nodes + 1;
        auto loss = CreateObject<MatrixPropagationLossModel>();
        loss->SetDefaultLoss(NOWHERE_DB);
        auto channel = CreateObject<DestructiveChannel>();
        channel->AddPropagationLossModel(loss);
        std::vector<Ptr<MobilityModel>> places;
        for (uint32_t node = 0; node < count; ++node)
        {
            auto device = CreateObject<LrWpanNetDevice>();
            device->SetChannel(channel);
            auto owner = CreateObject<Node>();
            owner->AddDevice(device);
            auto place = CreateObject<ConstantPositionMobilityModel>();
            place->SetPosition(Vector(node, 0, 0));
            device->GetPhy()->SetMobility(place);
            device->SetAddress(Mac16Address(Address16(node).c_str()));
            places.push_back(place);
            m_devices.push_back(device);
            m_generated.emplace_back();
            auto mac = device->GetMac();
            mac->SetMcpsDataIndicationCallback(MakeCallback(&Bench::Received, this).Bind(node));
            mac->SetMcpsDataConfirmCallback(MakeCallback(&Bench::Sent, this).Bind(node));
            device->GetPhy()->TraceConnectWithoutContext("PhyTxBegin",
                                                         MakeCallback(&Bench::Transmitted, this));
        }
        for (uint32_t a = 0; a < count; ++a)
        {
            for (uint32_t b = 0; b < count; ++b)
            {
                const bool near = kind == "star" || (kind == "hidden" && (a == 0 || b == 0)) ||
                                  (kind == "chain" && (a + 1 == b || b + 1 == a));
                if (a != b && near)
                {
                    loss->SetLoss(places[a], places[b], NEAR_DB, false);
                    channel->Hears(m_devices[a]->GetPhy(), m_devices[b]->GetPhy());
                }
            }
        }
        if (m_saturated)
        {
            for (uint32_t node = 1; node < count; ++node)
            {
                Simulator::Schedule(Seconds(0), &Bench::Generate, this, node);
            }
        }
        else
        {
            m_gap->SetAttribute("Mean", DoubleValue(1 / rate));
            Simulator::Schedule(Seconds(m_gap->GetValue()), &Bench::Tick, this, count - 1);
        }
    }

    void Print() const
    {
        std::cout << m_delivered << "," << m_offered << "," << m_delay << "," << m_frames << ","
                  << m_transmissions << std::endl;
    }

  private:
    static std::string Address16(uint32_t node)
    {
        char text[24];
        std::snprintf(text, sizeof text, "%02x:%02x", (node + 1) >> 8, (node + 1) & 0xff);
        return text;
    }

    void Tick(uint32_t node)
    {
        Generate(node);
        Simulator::Schedule(Seconds(m_gap->GetValue()), &Bench::Tick, this, node);
    }

    void Generate(uint32_t node)
    {
        ++m_offered;
        m_generated[node].push_back(Simulator::Now());
        Send(node, Message{node, static_cast<uint32_t>(m_generated[node].size() - 1)});
    }

    void Send(uint32_t node, const Message& message)
    {
        std::vector<uint8_t> payload(m_bytes, 0);
        std::memcpy(payload.data(), &message, std::min(payload.size(), sizeof message));
        McpsDataRequestParams request;
        request.m_srcAddrMode = SHORT_ADDR;
        request.m_dstAddrMode = SHORT_ADDR;
        request.m_dstPanId = 0;
        const uint32_t to = m_saturated ? 0 : node - 1;
        request.m_dstAddr = Mac16Address(Address16(to).c_str());
        request.m_msduHandle = 0;
        request.m_txOptions = TX_OPTION_ACK;
        ++m_frames;
        m_devices[node]->GetMac()->McpsDataRequest(request,
                                                   Create<Packet>(payload.data(), payload.size()));
    }

    void Received(uint32_t node, McpsDataIndicationParams, Ptr<Packet> packet)
    {
        Message message{};
        std::vector<uint8_t> payload(std::max<size_t>(packet->GetSize(), sizeof message), 0);
        packet->CopyData(payload.data(), packet->GetSize());
        std::memcpy(&message, payload.data(), sizeof message);
        if (!m_seen.insert({node, message.from, message.number}).second)
        {
            return;
        }
        if (node == 0)
        {
            ++m_delivered;
            const Time delay = Simulator::Now() - m_generated[message.from][message.number];
            m_delay += delay.GetSeconds();
        }
        else
        {
            Send(node, message);
        }
    }

    void Sent(uint32_t node, McpsDataConfirmParams)
    {
        if (m_saturated)
        {
            // The MAC is done with the frame only after this call.
            Simulator::ScheduleNow(&Bench::Generate, this, node);
        }
    }

    void Transmitted(Ptr<const Packet> packet)
    {
        // Acknowledgements have 5 bytes.
        m_transmissions += packet->GetSize() > 5;
        NS_ABORT_MSG_IF(packet->GetSize() > 5 && packet->GetSize() != m_bytes + AROUND,
                        "a frame of " << packet->GetSize() << " bytes");
    }

    bool m_saturated;
    uint32_t m_bytes;
    Ptr<ExponentialRandomVariable> m_gap;
    std::vector<Ptr<LrWpanNetDevice>> m_devices;
    std::vector<std::vector<Time>> m_generated;
    std::set<std::tuple<uint32_t, uint32_t, uint32_t>> m_seen;
    uint64_t m_delivered = 0;
    uint64_t m_offered = 0;
    double m_delay = 0;
    uint64_t m_frames = 0;
    uint64_t m_transmissions = 0;
};

} // namespace

int
main(int argc, char** argv)
{
    if (argc < 7)
    {
        std::cerr << "usage: lrwpan star|hidden|chain NODES BYTES RATE SECONDS SEED [--capture]\n";
        return 2;
    }
    g_capture = argc > 7 && std::string(argv[7]) == "--capture";
    RngSeedManager::SetSeed(1);
    RngSeedManager::SetRun(std::stoul(argv[6]));
    Bench bench(argv[1], std::stoul(argv[2]), std::stoul(argv[3]), std::stod(argv[4]));
    Simulator::Stop(Seconds(std::stod(argv[5])));
    Simulator::Run();
    bench.Print();
    Simulator::Destroy();
    return 0;
}
